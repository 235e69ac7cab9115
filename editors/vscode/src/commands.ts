/** The user's commands. The server does the filling; this adds the place and the questions to the user. */
import * as vscode from 'vscode';
import { ExecuteCommandRequest, type LanguageClient } from 'vscode-languageclient/node';
import type { Fills, Order } from './fills';
import type { Inline } from './inline';
import type { NextEdits } from './next_edit';
import type { Preview } from './preview';
import { refineSuggestion } from './refine';
import { explain } from './say';
import { offByScheme } from './schemes';
import { toggled } from './settings';
import type { StatusBar } from './status_bar';
import type { Snooze } from './snooze';
import { REFINE_SUGGESTION } from './wire';

export interface Parts {
  log: vscode.LogOutputChannel;
  bar: StatusBar;
  fills: Fills;
  preview: Preview;
  snooze: Snooze;
  inline: Inline;
  nextEdits: NextEdits;
  /** Finds and restarts the server. */
  start(): Promise<void>;
  /** Installs the extension's own server, and starts it if there is no other. */
  install(): Promise<void>;
  /** Offers the best model for this machine. */
  models(): Promise<void>;
  client(): LanguageClient | undefined;
}

const FILLS = ['fillHole', 'fillFunction', 'fillFile', 'writeBody'];

const STRENGTHS = [
  { label: 'Lightly', description: 'most of it stays', strength: 0.3 },
  { label: 'Halfway', description: 'about half of it stays', strength: 0.6 },
  { label: 'Freely', description: 'little of it stays', strength: 0.9 },
];

export function registerCommands(parts: Parts): vscode.Disposable[] {
  const handlers: Record<string, (argument?: unknown) => unknown> = {
    rework: () => rework(parts),
    refine: () => refine(parts),
    accept: () => parts.preview.decide(true),
    discard: () => parts.fills.stop(),
    reject: () => parts.inline.reject(),
    nextEdit: () => parts.nextEdits.accept(),
    dismissNextEdit: () => parts.nextEdits.dismiss(),
    snooze: (minutes) => parts.snooze.begin(minutes),
    endSnooze: () => parts.snooze.end(),
    restart: () => restart(parts),
    install: () => parts.install(),
    chooseModel: () => parts.models(),
    showLog: () => parts.log.show(),
    toggleLanguage: () => toggleLanguage(),
    showStatus: () => parts.bar.offer(vscode.window.activeTextEditor?.document.languageId),
  };
  for (const name of FILLS) {
    handlers[name] = () => fill(parts, { command: `infill-ls.${name}` });
  }
  return Object.entries(handlers).map(([name, handler]) => vscode.commands.registerCommand(`infill.${name}`, handler));
}

async function fill(parts: Parts, order: Order): Promise<void> {
  const editor = vscode.window.activeTextEditor;
  const client = parts.client();
  if (editor === undefined || client === undefined) {
    return;
  }
  const foreign = offByScheme(editor.document.uri.scheme);
  if (foreign !== undefined) {
    explain({ applied: false, reason: foreign });
  } else if (isKnown(client, order.command)) {
    await parts.fills.run(client, editor, order);
  }
}

/** Refines the visible suggestion; otherwise the selection, or the statement at the cursor. */
async function refine(parts: Parts): Promise<void> {
  const document = vscode.window.activeTextEditor?.document;
  const client = parts.client();
  const id = document && parts.inline.onScreen(document);
  if (document === undefined || client === undefined || id === undefined) {
    await fill(parts, { command: 'infill-ls.refine' });
  } else if (isKnown(client, REFINE_SUGGESTION)) {
    await refineSuggestion(client, parts.inline, document, id);
  }
}

/** Whether the server has `command`; tells the user if not. */
function isKnown(client: LanguageClient, command: string): boolean {
  const known = client.initializeResult?.capabilities.executeCommandProvider?.commands.includes(command) === true;
  if (!known) {
    void vscode.window.showWarningMessage(`This infill-ls does not know ${command}; update it as you installed it`);
  }
  return known;
}

async function rework(parts: Parts): Promise<void> {
  const choice = await vscode.window.showQuickPick(STRENGTHS, { title: 'Rework the selection', placeHolder: 'How much may change?' });
  if (choice === undefined) {
    return;
  }
  const prompt = 'What should it become? (optional; small models do not follow instructions)';
  const instruction = await vscode.window.showInputBox({ title: choice.label, prompt });
  if (instruction !== undefined) {
    const wish = instruction.trim() === '' ? {} : { instruction: instruction.trim() };
    await fill(parts, { command: 'infill-ls.rework', strength: choice.strength, ...wish });
  }
}

/** Restarts the worker if the server can do that, and the server itself in any case. */
async function restart(parts: Parts): Promise<void> {
  const client = parts.client();
  const command = 'infill-ls.restartWorker';
  if (client?.initializeResult?.capabilities.executeCommandProvider?.commands.includes(command) === true) {
    await client.sendRequest(ExecuteCommandRequest.type, { command, arguments: [] }).catch((error: unknown) => parts.log.warn(String(error)));
  }
  await parts.start();
}

async function toggleLanguage(): Promise<void> {
  const language = vscode.window.activeTextEditor?.document.languageId;
  if (language !== undefined) {
    const settings = vscode.workspace.getConfiguration('infill');
    const off = toggled(settings.get<string[]>('disabledLanguages', []), language);
    await settings.update('disabledLanguages', off, vscode.ConfigurationTarget.Global);
  }
}
