/** Offers to install the server where none was found, and keeps the extension's own up to date. */
import * as vscode from 'vscode';
import { Cancelled, type OwnServer } from './own_server';
import { warn } from './say';

const INSTALL = 'Install It';
const CHOOSE = 'Choose a File…';
const LONGEST = 80;

/** Shows `problem` and the remedies. Returns whether the server is here now. */
export async function offerInstall(problem: string, own: OwnServer, log: vscode.LogOutputChannel): Promise<boolean> {
  const choice = await vscode.window.showWarningMessage(problem, INSTALL, CHOOSE);
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
    if (!(error instanceof Cancelled)) {
      warn(error);
    }
    return false;
  }
}

async function chooseFile(): Promise<void> {
  const [file] = (await vscode.window.showOpenDialog({ title: 'The infill-ls command', openLabel: 'Use This' })) ?? [];
  if (file !== undefined) {
    await vscode.workspace.getConfiguration('infill').update('executable', file.fsPath, vscode.ConfigurationTarget.Global);
  }
}
