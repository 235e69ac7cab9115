/** The extension: one server, one status item, and the parts that draw. */
import * as os from 'node:os';
import * as path from 'node:path';
import * as vscode from 'vscode';
import { registerCommands } from './commands';
import { DraftView } from './draft_view';
import { Fills } from './fills';
import { Inline } from './inline';
import { install, offerInstall } from './install';
import { ModelOffer } from './model_offer';
import { NextEdits } from './next_edit';
import { OwnServer, serversFolder } from './own_server';
import { Preview } from './preview';
import { watchPython } from './python';
import { asked, section, Server } from './server';
import { needsRestart } from './settings';
import { Snooze } from './snooze';
import { StatusBar } from './status_bar';
import { StatusWatch } from './status_watch';
import { DRAFT, type Draft, REFINED, type Refined } from './wire';

const NEVER = new vscode.CancellationTokenSource().token;

/** Ask again whether a file is off this long after sending settings to the server. */
const CONFIGURED_MS = 200;

let server: Server | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const log = vscode.window.createOutputChannel('infill-ls', { log: true });
  const own = new OwnServer(serversFolder(process.platform === 'win32', os.homedir(), context.globalStorageUri.fsPath), context.asAbsolutePath('dist'));
  const bar = new StatusBar();
  const view = new DraftView();
  const preview = new Preview(view);
  const fills = new Fills(view, preview);
  const snooze: Snooze = new Snooze(() => onSnooze());
  const isSnoozed = (): boolean => snooze.minutesLeft > 0;
  const watch = new StatusWatch(bar, () => server?.client, () => snooze.minutesLeft, () => modelOffer.onReady());
  const inline: Inline = new Inline(view, () => server?.client, () => {
    watch.onOffered();
    nextEdits.hide();
  }, (document, position, isAutomatic) => watch.onNothing(document, position, isAutomatic), isSnoozed);
  const nextEdits = new NextEdits(() => server?.client, (document) => inline.onScreen(document) !== undefined, isSnoozed);

  const modelOffer: ModelOffer = new ModelOffer(context, { get client() { return server?.client; } }, log);
  const running: Server = (server = new Server(log, own, {
    onPhase: (phase, reason) => {
      if (phase !== 'running') {
        fills.stop();
        view.clear();
      }
      void vscode.commands.executeCommand('setContext', 'infill.running', phase === 'running');
      watch.onPhase(phase, reason);
      if (phase === 'running') {
        modelOffer.onRunning();
      }
    },
    onClient: (client) => {
      watch.listen(client);
      client.onNotification(DRAFT, (draft: Draft) => (draft.kind === 'inline' ? inline.onDraft(draft) : fills.onDraft(draft)));
      client.onNotification(REFINED, (refined: Refined) => inline.onRefined(refined));
    },
    middleware: {
      ...inline.middleware,
      resolveCodeAction: (action, token, next) => fills.resolving(action, token, next),
      workspace: {
        configuration: ({ items }) => {
          setTimeout(() => watch.ask(), CONFIGURED_MS);
          return items.map((item) => (item.section === 'infill' ? asked(item.scopeUri) : null));
        },
        handleApplyEdit: (params, next) => fills.onEdit(running.client, params, async () => next(params, NEVER)),
      },
    },
  }));

  let wasSnoozed = false;
  const onSnooze = (): void => {
    watch.draw();
    if (isSnoozed() !== wasSnoozed) {
      wasSnoozed = isSnoozed();
      void vscode.commands.executeCommand('setContext', 'infill.snoozed', wasSnoozed);
      void (wasSnoozed && vscode.commands.executeCommand('editor.action.inlineSuggest.hide'));
      nextEdits.enter(vscode.window.activeTextEditor);
    }
  };

  own.tidy();
  let missing = '';
  let installing: Promise<boolean> | undefined;
  const installOwn = async (): Promise<boolean> => {
    const onWork = (works: boolean): void => {
      if (running.client === undefined) { // else the earlier one still runs
        watch.onPhase(works ? 'installing' : 'missing', missing);
      }
    };
    installing ??= install(own, log, onWork).finally(() => { installing = undefined; });
    return installing;
  };
  const start = async (): Promise<void> => {
    const problem = await running.start();
    missing = problem?.problem ?? '';
    // The message may be answered when the server is there by other ways: then it must not be taken away.
    if (problem !== undefined && (await offerInstall(problem, async () => running.client === undefined && installOwn()))) {
      await running.start();
    } else if (running.command === own.program() && own.isOutdated() && (await installOwn())) {
      await running.start();
    }
    if (running.command === own.program()) {
      own.use();
    }
    const isOwn = running.origin === 'the extension';
    nameInTerminals(context, isOwn ? await own.commandFolder() : running.origin === 'a bundle' ? path.dirname(running.command) : undefined);
  };
  const startIfChanged = async (): Promise<void> => {
    if (await running.wouldChange()) {
      await start();
    }
  };

  let before = section();
  context.subscriptions.push(
    log, bar, view, preview, snooze, inline, nextEdits, watch, modelOffer, running,
    ...registerCommands({
      log, bar, fills, preview, snooze, inline, nextEdits, start,
      install: async () => {
        if (await installOwn()) {
          await start();
        }
      },
      models: () => modelOffer.now(),
      client: () => running.client,
    }),
    vscode.workspace.onDidChangeConfiguration(async (event) => {
      if (!event.affectsConfiguration('infill')) {
        return;
      }
      const after = section();
      const restart = needsRestart(before, after);
      before = after;
      if (restart) {
        await start();
      } // else the server asks for what it wants to know
    }),
    vscode.workspace.onDidGrantWorkspaceTrust(startIfChanged),
  );
  void watchPython(() => void startIfChanged()).then((watching) => watching && context.subscriptions.push(watching));
  void start();
  await Promise.resolve();
}

/** Has new terminals find `infill-ls` in `folder`, behind everything else, where the user has none on PATH. */
function nameInTerminals(context: vscode.ExtensionContext, folder: string | undefined): void {
  const variables = context.environmentVariableCollection;
  variables.clear();
  if (folder !== undefined) {
    variables.description = 'Finds the command `infill-ls`, for `infill-ls models` and `infill-ls doctor`';
    variables.append('PATH', `${path.delimiter}${folder}`);
  }
}

export async function deactivate(): Promise<void> {
  await server?.stop();
}
