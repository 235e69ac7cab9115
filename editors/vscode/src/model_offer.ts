/** Leads a new user from the small embedded model to the best one that this machine runs. Nothing is downloaded unless
 * they choose it. */
import * as os from 'node:os';
import * as vscode from 'vscode';
import type { LanguageClient } from 'vscode-languageclient/node';
import { type Offer, offerIn, stepsHere } from './models';
import { MODEL_OFFER } from './wire';

const TOLD = 'infill.toldOfModels';
/** The first model is loaded by then: to look at the machine takes a processor some seconds. */
const FIRST_MS = 20_000;

const DOWNLOAD = 'Download It';
const USE = 'Use It';

/** The server that runs: the command that it was started with, and the client that talks to it. */
export interface Running {
  readonly command: string;
  readonly client: LanguageClient | undefined;
}

/** Offers it once, some time after the first start, to a user who has set no model. */
export function offerModelOnce(context: vscode.ExtensionContext, running: Running): void {
  const isDone = (): boolean => context.globalState.get<boolean>(TOLD) === true || isModelSet();
  if (isDone()) {
    return;
  }
  const timer = setTimeout(() => {
    if (isDone()) {
      return;
    }
    void look(running, false).then(async (offer) => {
      if (typeof offer === 'object' && !isDone()) {
        await context.globalState.update(TOLD, true);
        await show(offer, running.command);
      }
    });
  }, FIRST_MS);
  context.subscriptions.push({ dispose: () => clearTimeout(timer) });
}

/** Offers it now, because the user asks; where there is none, says why. */
export async function offerModel(running: Running): Promise<void> {
  const title = 'Looking at this machine';
  const offer = await vscode.window.withProgress({ location: vscode.ProgressLocation.Notification, title }, () => look(running, true));
  if (typeof offer === 'object') {
    await show(offer, running.command);
  } else {
    void vscode.window.showInformationMessage(offer ?? 'infill-ls does not answer; `infill-ls models` in a terminal shows the models.');
  }
}

function isModelSet(): boolean {
  const places = vscode.workspace.getConfiguration('infill').inspect('model');
  return places?.globalValue !== undefined;
}

async function look(running: Running, anew: boolean): Promise<Offer | string | undefined> {
  return running.client?.sendRequest(MODEL_OFFER, { anew }).then(offerIn, () => undefined);
}

async function show(offer: Offer, command: string): Promise<void> {
  const choice = await vscode.window.showInformationMessage(offer.text, offer.steps.length === 0 ? USE : DOWNLOAD);
  if (choice === undefined || (choice === DOWNLOAD && !(await isDownloaded(offer, command)))) {
    return;
  }
  await vscode.workspace.getConfiguration('infill').update('model', offer.model, vscode.ConfigurationTarget.Global);
}

/** Runs the steps in a terminal, where a licence is asked for; whether all went well and the user wants to use it. */
async function isDownloaded(offer: Offer, command: string): Promise<boolean> {
  for (const [program = '', ...words] of stepsHere(offer, command)) {
    if ((await runInTerminal(`Download ${offer.model}`, program, words)) !== 0) {
      return false; // the terminal says why
    }
  }
  return (await vscode.window.showInformationMessage(`${offer.model} is here.`, USE)) === USE;
}

/** Runs a program as a task, quoted for whichever shell the user has; its exit status. */
async function runInTerminal(name: string, program: string, words: string[]): Promise<number | undefined> {
  const strong = (value: string): vscode.ShellQuotedString => ({ value, quoting: vscode.ShellQuoting.Strong });
  const execution = new vscode.ShellExecution(strong(program), words.map(strong), { cwd: os.homedir() });
  const task = new vscode.Task({ type: 'infill-ls' }, vscode.TaskScope.Global, name, 'infill-ls', execution);
  task.presentationOptions = { reveal: vscode.TaskRevealKind.Always, focus: true, clear: false };
  return new Promise((resolve) => {
    const ended = vscode.tasks.onDidEndTaskProcess((event) => {
      if (event.execution.task.name === name && event.execution.task.source === 'infill-ls') {
        ended.dispose();
        resolve(event.exitCode);
      }
    });
    vscode.tasks.executeTask(task).then(undefined, () => {
      ended.dispose();
      resolve(undefined);
    });
  });
}
