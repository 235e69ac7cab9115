/** Offers to install the server where none was found, and keeps the extension's own up to date. */
import * as vscode from 'vscode';
import { Cancelled, type OwnServer, plain } from './own_server';

const INSTALL = 'Install It';
const COSTS = 'Install It downloads 265 MB and takes 1.3 GB on disk (with CUDA 4.8 GB).';
const CHOOSE = 'Choose a File…';
const [AGAIN, LOG] = ['Try Again', 'Show Log'];
const LONGEST = 80;

/** Shows the problem and the remedies. Returns whether the server is here now. */
export async function offerInstall(missing: { problem: string; badSetting: boolean }, installNow: () => Promise<boolean>): Promise<boolean> {
  const { problem, badSetting } = missing; // a setting comes before what would be installed
  const choice = await (badSetting ? vscode.window.showWarningMessage(problem, CHOOSE) : vscode.window.showWarningMessage(`${problem} ${COSTS}`, INSTALL, CHOOSE));
  if (choice === CHOOSE) {
    await chooseFile(); // the changed setting starts it
  }
  return choice === INSTALL && installNow();
}

/** Installs the server with progress, until it is done or the user cancels. Returns whether it is here now. `onWork` hears when it begins, and when it has failed. */
export async function install(own: OwnServer, log: vscode.LogOutputChannel, onWork: (works: boolean) => void): Promise<boolean> {
  const options = { location: vscode.ProgressLocation.Notification, title: 'Installing infill-ls', cancellable: true };
  onWork(true);
  try {
    await vscode.window.withProgress(options, async (progress, token) => own.install({
      line: (text) => {
        log.info(`installing: ${text}`);
        progress.report({ message: plain(text).slice(0, LONGEST) });
      },
      onCancel: (stop) => token.onCancellationRequested(stop),
    }));
    return true;
  } catch (error) {
    onWork(false);
    if (error instanceof Cancelled) {
      return false;
    }
    const why = error instanceof Error ? error.message : String(error);
    const choice = await vscode.window.showWarningMessage(`infill-ls was not installed: ${why}`, AGAIN, LOG);
    if (choice === LOG) {
      log.show();
    }
    return choice === AGAIN && install(own, log, onWork);
  }
}

async function chooseFile(): Promise<void> {
  const [file] = (await vscode.window.showOpenDialog({ title: 'The infill-ls command', openLabel: 'Use This' })) ?? [];
  if (file !== undefined) {
    await vscode.workspace.getConfiguration('infill').update('executable', file.fsPath, vscode.ConfigurationTarget.Global);
  }
}
