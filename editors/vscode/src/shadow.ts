/** Shadow mode: its report in a tab, and deleting its records. Both run `infill-ls shadow` in a separate process. */
import { execFile } from 'node:child_process';
import * as os from 'node:os';
import { promisify } from 'node:util';
import * as vscode from 'vscode';
import { warn } from './say';

const MOST_BYTES = 64 * 1024 * 1024;
const FORGET = 'Forget';

/** Shows the output of `infill-ls shadow report --html`. It runs no script, and leaves nothing on the disk. */
export async function showShadowReport(command: string): Promise<void> {
  const title = 'Making the shadow report';
  const report = vscode.window.withProgress({ location: vscode.ProgressLocation.Notification, title }, () => shadow(command, 'report', '--html'));
  await report.then((html) => {
    const panel = vscode.window.createWebviewPanel('infill.shadow', 'Shadow Report', vscode.ViewColumn.Active, { enableScripts: false });
    panel.webview.html = html;
  }, warn);
}

/** Deletes shadow mode's records, after the user confirms. */
export async function forgetShadow(command: string): Promise<void> {
  const detail = 'What was asked of both models so far is deleted. Shadow mode itself stays as it is set.';
  const choice = await vscode.window.showWarningMessage('Forget all shadow data?', { modal: true, detail }, FORGET);
  if (choice === FORGET) {
    await shadow(command, 'forget').then((said) => void vscode.window.showInformationMessage(`infill-ls: ${said.trim()}`), warn);
  }
}

/** The output of `infill-ls shadow …`. Throws its error message if it fails. */
async function shadow(command: string, ...words: string[]): Promise<string> {
  if (command === '') {
    throw new Error('no infill-ls was found yet; see the status bar');
  }
  const options = { cwd: os.homedir(), env: { ...process.env, PYTHONSAFEPATH: '1' }, maxBuffer: MOST_BYTES };
  try {
    return (await promisify(execFile)(command, ['shadow', ...words], options)).stdout;
  } catch (error) {
    const said = (error as { stderr?: string }).stderr?.trim();
    throw said ? new Error(said.split('\n').at(-1)) : error;
  }
}
