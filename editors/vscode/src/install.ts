/** The offer to a user without `infill-ls`. Nothing is installed until they press Enter. */
import * as os from 'node:os';
import * as vscode from 'vscode';

const PIPX = 'Install with pipx…';
const PIP = 'Install with pip…';
const CHOOSE = 'Choose a File…';
const RETRY = 'Look Again';

/** Shows `problem` and the remedies. Returns whether to look for the server again. */
export async function offerInstall(problem: string): Promise<boolean> {
  const choice = await vscode.window.showWarningMessage(problem, PIPX, PIP, CHOOSE);
  switch (choice) {
    case PIPX:
      return inTerminal('pipx install infill-ls');
    case PIP:
      return inTerminal('python3 -m pip install --user infill-ls');
    case CHOOSE:
      return chooseFile();
    default:
      return false;
  }
}

/** Types the command into a terminal without running it: the user reads it, and decides. */
async function inTerminal(command: string): Promise<boolean> {
  const terminal = vscode.window.createTerminal({ name: 'Install infill-ls', cwd: os.homedir() });
  terminal.show();
  terminal.sendText(command, false);
  const done = 'Press Enter in the terminal to install infill-ls. When it is done:';
  return (await vscode.window.showInformationMessage(done, RETRY)) === RETRY;
}

async function chooseFile(): Promise<boolean> {
  const [file] = (await vscode.window.showOpenDialog({ title: 'The infill-ls command', openLabel: 'Use This' })) ?? [];
  if (file === undefined) {
    return false;
  }
  const settings = vscode.workspace.getConfiguration('infill');
  await settings.update('executable', file.fsPath, vscode.ConfigurationTarget.Global);
  return false; // the changed setting starts it
}
