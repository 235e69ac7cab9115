/** Leads a new user from the embedded model to the best one for this machine. Downloads only what they choose. */
import * as os from 'node:os';
import * as vscode from 'vscode';
import type { LanguageClient } from 'vscode-languageclient/node';
import { isPull, type Offer, offerIn } from './models';
import { MODEL_OFFER } from './wire';

const TOLD = 'infill.toldOfModels';
/** The first model is loaded by then: checking the machine takes some seconds of a processor. */
const FIRST_MS = 20_000;

const DOWNLOAD = 'Download It';
const PULL_COMMAND = 'infill-ls.pullModel';

/** The client of the running server. */
export interface Running {
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
        await show(offer, running);
      }
    });
  }, FIRST_MS);
  context.subscriptions.push({ dispose: () => clearTimeout(timer) });
}

/** Offers it now, at the user's request; if there is none, says why. */
export async function offerModel(running: Running): Promise<void> {
  const title = 'Looking at this machine';
  const offer = await vscode.window.withProgress({ location: vscode.ProgressLocation.Notification, title }, () => look(running, true));
  if (typeof offer === 'object') {
    await show(offer, running);
  } else {
    void vscode.window.showInformationMessage(offer ?? 'infill-ls does not answer; `infill-ls models` in a terminal shows the models.');
  }
}

function isModelSet(): boolean {
  const places = vscode.workspace.getConfiguration('infill').inspect('model');
  return places?.globalValue !== undefined;
}

async function look(running: Running, refresh: boolean): Promise<Offer | string | undefined> {
  return running.client?.sendRequest(MODEL_OFFER, { refresh }).then(offerIn, () => undefined);
}

async function show(offer: Offer, running: Running): Promise<void> {
  const choice = await vscode.window.showInformationMessage(offer.text, DOWNLOAD, ...offer.use.map((one) => one.title));
  const used = offer.use.find((one) => one.title === choice);
  if (used !== undefined) {
    await vscode.workspace.getConfiguration('infill').update('model', used.model, vscode.ConfigurationTarget.Global);
  } else if (choice === DOWNLOAD) {
    await download(offer, running);
  }
}

/** Runs the steps. The server downloads, shows progress, and then loads the model, because none is set. */
async function download(offer: Offer, running: Running): Promise<void> {
  for (const step of offer.steps) {
    if (isPull(step)) {
      const answer: unknown = await running.client?.sendRequest('workspace/executeCommand', { command: PULL_COMMAND, arguments: [{ model: offer.model }] });
      const { applied, reason } = (answer ?? {}) as { applied?: unknown; reason?: unknown };
      if (applied !== true) {
        void vscode.window.showErrorMessage(`${offer.model} was not downloaded: ${typeof reason === 'string' ? reason : 'infill-ls does not answer'}`);
        return;
      }
    } else if ((await runInTerminal(`Install what ${offer.model} needs`, step[0] ?? '', step.slice(1))) !== 0) {
      return; // the terminal says why
    }
  }
  void vscode.window.showInformationMessage(`${offer.model} is here and fills from now on.`);
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
