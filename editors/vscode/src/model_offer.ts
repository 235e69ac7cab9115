/** Leads a new user from the embedded model to the best one for this machine. Downloads only what they choose. */
import * as os from 'node:os';
import * as vscode from 'vscode';
import type { LanguageClient } from 'vscode-languageclient/node';
import { type Found, foundIn, isPull, type Offer } from './models';
import { MODEL_OFFER } from './wire';

const TOLD = 'infill.toldOfModels';
/** Before the first look, where no model loads meanwhile: checking the machine takes some seconds of a processor. */
const FIRST_MS = 20_000;
/** Once the first model is loaded. */
const READY_MS = 1_000;
/** Between two looks, each time twice as long. */
const MOST_MS = 600_000;

const [DOWNLOAD, AGAIN, BY_HAND] = ['Download It', 'Try Again', 'Copy It by Hand…'];
const PULL_COMMAND = 'infill-ls.pullModel';

/** The client of the running server. */
export interface Running {
  readonly client: LanguageClient | undefined;
}

/** Offers it once, some time after a start, to a user who has set no model. A look that fails is tried again. */
export class ModelOffer implements vscode.Disposable {
  private timer: NodeJS.Timeout | undefined;
  private wasReady = false;

  constructor(private readonly context: vscode.ExtensionContext, private readonly running: Running, private readonly log: vscode.LogOutputChannel) {}

  onRunning(): void {
    this.lookIn(FIRST_MS);
  }

  /** Looks soon after the first model is loaded. */
  onReady(): void {
    if (!this.wasReady) {
      this.wasReady = true;
      this.lookIn(READY_MS);
    }
  }

  /** Offers it now, at the user's request; if there is none, says why. */
  async now(): Promise<void> {
    const title = 'Looking at this machine';
    const found = await vscode.window.withProgress({ location: vscode.ProgressLocation.Notification, title }, () => look(this.running));
    if ('offer' in found) {
      await show(found.offer, this.running);
    } else {
      void vscode.window.showInformationMessage(found.why);
    }
  }

  dispose(): void {
    clearTimeout(this.timer);
  }

  private lookIn(pauseMs: number): void {
    clearTimeout(this.timer);
    if (!this.isDone()) {
      this.timer = setTimeout(() => void this.offerOnce(pauseMs), pauseMs);
    }
  }

  private async offerOnce(pauseMs: number): Promise<void> {
    const timer = this.timer;
    const found = this.isDone() ? undefined : await look(this.running);
    if (found === undefined || timer !== this.timer || this.isDone()) {
      return; // told, or started again meanwhile
    }
    if ('offer' in found) {
      await this.context.globalState.update(TOLD, true);
      await show(found.offer, this.running);
      return;
    }
    this.log.info(`no model is offered: ${found.why}`);
    if (!found.isFinal) {
      this.lookIn(Math.min(2 * pauseMs, MOST_MS));
    }
  }

  private isDone(): boolean {
    return this.context.globalState.get<boolean>(TOLD) === true || isModelSet();
  }
}

function isModelSet(): boolean {
  const places = vscode.workspace.getConfiguration('infill').inspect('model');
  return places?.globalValue !== undefined;
}

async function look(running: Running): Promise<Found> {
  return foundIn(await running.client?.sendRequest(MODEL_OFFER, {}).catch(() => undefined));
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
        const why = typeof reason === 'string' ? reason : 'infill-ls does not answer';
        if (await asksAgain(`${offer.model} was not downloaded`, why)) {
          await download(offer, running);
        }
        return;
      }
    } else if ((await runInTerminal(`Install what ${offer.model} needs`, step[0] ?? '', step.slice(1))) !== 0) {
      return; // the terminal says why
    }
  }
  void vscode.window.showInformationMessage(`${offer.model} is installed and now in use.`);
}

/** Says why it failed, and on a click the other way, which is in the lines after the first. Whether the user wants to try again. */
async function asksAgain(what: string, why: string): Promise<boolean> {
  const [first = '', ...others] = why.split('\n');
  const choice = await vscode.window.showErrorMessage(`${what}: ${first}`, AGAIN, ...(others.length > 0 ? [BY_HAND] : []));
  if (choice === BY_HAND) {
    return (await vscode.window.showInformationMessage(what, { modal: true, detail: others.join('\n') }, AGAIN)) === AGAIN;
  }
  return choice === AGAIN;
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
