/** Leads a new user from the small embedded model to the best one that this machine runs. Nothing is downloaded without
 * their own Enter. */
import { execFile } from 'node:child_process';
import * as os from 'node:os';
import * as vscode from 'vscode';
import { commandLine, type Offer, offerIn } from './models';

const TOLD = 'infill.toldOfModels';
/** The first model is loaded by then: to look at the machine takes a processor some seconds. */
const FIRST_MS = 20_000;
const LIMIT_MS = 120_000;

const DOWNLOAD = 'Download in a Terminal…';
const USE = 'Use It';

/** Offers it once, some time after the first start, to a user who has set no model. `command` names infill-ls then. */
export function offerModelOnce(context: vscode.ExtensionContext, command: () => string): void {
  if (context.globalState.get<boolean>(TOLD) === true || isModelSet()) {
    return;
  }
  const timer = setTimeout(() => {
    if (context.globalState.get<boolean>(TOLD) !== true && !isModelSet()) {
      void look(command()).then(async (offer) => {
        if (offer !== undefined) {
          await context.globalState.update(TOLD, true);
          await show(offer, command());
        }
      });
    }
  }, FIRST_MS);
  context.subscriptions.push({ dispose: () => clearTimeout(timer) });
}

/** Offers it now, because the user asks. */
export async function offerModel(command: string): Promise<void> {
  const title = 'Looking at this machine';
  const offer = await vscode.window.withProgress({ location: vscode.ProgressLocation.Notification, title }, () => look(command));
  if (offer === undefined) {
    const none = 'No better model than the embedded one runs on this machine; `infill-ls models` in a terminal says why.';
    void vscode.window.showInformationMessage(none);
  } else {
    await show(offer, command);
  }
}

function isModelSet(): boolean {
  const places = vscode.workspace.getConfiguration('infill').inspect('model');
  return places?.globalValue !== undefined;
}

async function look(command: string): Promise<Offer | undefined> {
  const options = { cwd: os.homedir(), env: { ...process.env, PYTHONSAFEPATH: '1' }, timeout: LIMIT_MS };
  return new Promise((resolve) => {
    execFile(command, ['models', '--json'], options, (error, output) => resolve(error === null ? offerIn(output) : undefined));
  });
}

async function show(offer: Offer, command: string): Promise<void> {
  const choice = await vscode.window.showInformationMessage(offer.text, offer.command === '' ? USE : DOWNLOAD);
  if (choice === DOWNLOAD) {
    const terminal = vscode.window.createTerminal({ name: `Download ${offer.model}`, cwd: os.homedir() });
    terminal.show();
    terminal.sendText(commandLine(offer, command), false);
    const done = `Press Enter in the terminal to download ${offer.model}. When it is done:`;
    if ((await vscode.window.showInformationMessage(done, USE)) !== USE) {
      return;
    }
  } else if (choice !== USE) {
    return;
  }
  await vscode.workspace.getConfiguration('infill').update('model', offer.model, vscode.ConfigurationTarget.Global);
}
