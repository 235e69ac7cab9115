/** Shadow mode: its report in a tab. Runs `infill-ls shadow report` in a separate process. */
import { execFile } from 'node:child_process';
import * as os from 'node:os';
import { promisify } from 'node:util';
import * as vscode from 'vscode';
import { warn } from './say';

/** Shows the output of `infill-ls shadow report` as an unsaved document. */
export async function showShadowReport(command: string): Promise<void> {
  const title = 'Making the shadow report';
  const report = vscode.window.withProgress({ location: vscode.ProgressLocation.Notification, title }, () => shadowReport(command));
  await report.then(async (content) => vscode.window.showTextDocument(await vscode.workspace.openTextDocument({ content })), warn);
}

async function shadowReport(command: string): Promise<string> {
  if (command === '') {
    throw new Error('no infill-ls was found yet; see the status bar');
  }
  const options = { cwd: os.homedir(), env: { ...process.env, PYTHONSAFEPATH: '1' } };
  try {
    return (await promisify(execFile)(command, ['shadow', 'report'], options)).stdout;
  } catch (error) {
    const { stdout, stderr } = error as { stdout?: string; stderr?: string };
    const said = stderr?.trim() || stdout?.trim();
    throw said ? new Error(said.split('\n').at(0)) : error;
  }
}
