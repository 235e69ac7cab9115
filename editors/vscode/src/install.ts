/** Offers to install the server where none was found, and keeps the extension's own up to date. */
import * as vscode from 'vscode';
import { Cancelled, type OwnServer } from './own_server';

const INSTALL = 'Install It';
const COSTS = 'It takes 1.3 GB on disk, 4.8 GB with CUDA.';
const CHOOSE = 'Choose a File…';
const [AGAIN, LOG] = ['Try Again', 'Show Log'];
const LONGEST = 80;

/** Shows `problem` and the remedies. Returns whether the server is here now. */
export async function offerInstall(problem: string, own: OwnServer, log: vscode.LogOutputChannel): Promise<boolean> {
  const choice = await vscode.window.showWarningMessage(`${problem} ${COSTS}`, INSTALL, CHOOSE);
  if (choice === CHOOSE) {
    await chooseFile(); // the changed setting starts it
  }
  return choice === INSTALL && install(own, log);
}

/** Installs the server with progress, until it is done or the user cancels. Returns whether it is here now. */
export async function install(own: OwnServer, log: vscode.LogOutputChannel): Promise<boolean> {
  const options = { location: vscode.ProgressLocation.Notification, title: 'Installing infill-ls', cancellable: true };
  try {
    await vscode.window.withProgress(options, async (progress, token) => own.install({
      line: (text) => {
        log.info(`installing: ${text}`);
        progress.report({ message: text.slice(0, LONGEST) });
      },
      onCancel: (stop) => token.onCancellationRequested(stop),
    }));
    return true;
  } catch (error) {
    if (error instanceof Cancelled) {
      return false;
    }
    const why = error instanceof Error ? error.message : String(error);
    const choice = await vscode.window.showWarningMessage(`infill-ls was not installed: ${why}`, AGAIN, LOG);
    if (choice === LOG) {
      log.show();
    }
    return choice === AGAIN && install(own, log);
  }
}

async function chooseFile(): Promise<void> {
  const [file] = (await vscode.window.showOpenDialog({ title: 'The infill-ls command', openLabel: 'Use This' })) ?? [];
  if (file !== undefined) {
    await vscode.workspace.getConfiguration('infill').update('executable', file.fsPath, vscode.ConfigurationTarget.Global);
  }
}
