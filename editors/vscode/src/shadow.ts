/** Shadow mode: its report in a tab, and forgetting what it has kept. Both are `infill-ls shadow` in a process of its own. */
import { execFile } from 'node:child_process';
import * as os from 'node:os';
import { promisify } from 'node:util';
import * as vscode from 'vscode';
import { warn } from './say';

const MOST_BYTES = 64 * 1024 * 1024;
const FORGET = 'Forget';

/** Shows what `infill-ls shadow report --html` writes. It runs no script, and nothing of it stays on the disk. */
export async function showShadowReport(command: string): Promise<void> {
  const title = 'Making the shadow report';
  const report = vscode.window.withProgress({ location: vscode.ProgressLocation.Notification, title }, () => shadow(command, 'report', '--html'));
  await report.then((html) => {
    const panel = vscode.window.createWebviewPanel('infill.shadow', 'Shadow Report', vscode.ViewColumn.Active, { enableScripts: false });
    panel.webview.html = html;
  }, warn);
}

/** Deletes what shadow mode has kept, once the user has said so again. */
export async function forgetShadow(command: string): Promise<void> {
  const detail = 'What was asked of both models so far is deleted. Shadow mode itself stays as it is set.';
  const choice = await vscode.window.showWarningMessage('Forget all shadow data?', { modal: true, detail }, FORGET);
  if (choice === FORGET) {
    await shadow(command, 'forget').then((said) => void vscode.window.showInformationMessage(`infill-ls: ${said.trim()}`), warn);
  }
}

/** What `infill-ls shadow …` prints. Raises with its own words where it fails. */
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
