/** Tells the user about a command's progress and result. */
import * as vscode from 'vscode';
import { DISCARDED, type Applied } from './wire';

/** Shows progress at the bottom of the window until `until` settles. */
export function showProgress(title: string, until: Promise<unknown>): void {
  void vscode.window.withProgress({ location: vscode.ProgressLocation.Window, title }, () => until.catch(() => undefined));
}

/** Says why nothing was done, unless the user decided so. */
export function explain(answer: Applied | null): void {
  if (answer !== null && !answer.applied && answer.reason !== null && answer.reason !== DISCARDED) {
    void vscode.window.showInformationMessage(`infill-ls: ${answer.reason}`);
  }
}

/** Says what went wrong. */
export function warn(error: unknown): void {
  void vscode.window.showWarningMessage(`infill-ls: ${error instanceof Error ? error.message : String(error)}`);
}
