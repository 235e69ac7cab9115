/** VS Code's own list of completions in JSON: what a schema knows comes before what a model guesses. */
import * as vscode from 'vscode';
import { isSubsequence } from './suggestion';

const LANGUAGES = ['json', 'jsonc', 'snippets'];
const TRIGGERS = '":';
const OPENING: readonly unknown[] = [true, 'on', 'offWhenInlineCompletions'];

/**
 * Whether VS Code opens its list at `position` by itself, with more in it than the words of the file. It keeps the list
 * closed while there is ghost text (`offWhenInlineCompletions`, the default of `editor.quickSuggestions`).
 */
export async function hasOwnList(document: vscode.TextDocument, position: vscode.Position): Promise<boolean> {
  if (!LANGUAGES.includes(document.languageId) || !opensByItself(document)) {
    return false;
  }
  const word = document.getWordRangeAtPosition(position);
  const typed = word === undefined ? '' : document.getText(word.with({ end: position })).replace(/^"/, '');
  const before = document.lineAt(position).text.charAt(position.character - 1);
  if (typed === '' && (before === '' || !TRIGGERS.includes(before))) {
    return false;
  }
  const list = await vscode.commands.executeCommand<vscode.CompletionList | undefined>(
    'vscode.executeCompletionItemProvider', document.uri, position,
  );
  return list?.items.some((item) => isListed(item, typed)) === true;
}

function isListed({ kind, label, filterText }: vscode.CompletionItem, typed: string): boolean {
  const text = filterText ?? (typeof label === 'string' ? label : label.label);
  return kind !== vscode.CompletionItemKind.Text && isSubsequence(typed.toLowerCase(), text.toLowerCase());
}

function opensByItself(document: vscode.TextDocument): boolean {
  const setting = vscode.workspace.getConfiguration('editor', document).get<unknown>('quickSuggestions');
  const values: unknown[] = typeof setting === 'object' && setting !== null ? Object.values(setting) : [setting];
  return values.some((value) => OPENING.includes(value));
}
