/** The server's process and the client that talks to it: found, started, restarted when it ends, stopped. */
import * as os from 'node:os';
import * as vscode from 'vscode';
import {
  CloseAction, type ClientCapabilities, ErrorAction, LanguageClient,
  type LanguageClientOptions, type Middleware, RevealOutputChannelOn, type StaticFeature, State, type FeatureState,
} from 'vscode-languageclient/node';
import { Backoff } from './backoff';
import { findServer, type Origin } from './find_server';
import type { OwnServer } from './own_server';
import { SERVED } from './schemes';
import { changeable, type Section, startOptions } from './settings';
import type { Server as Phase } from './status';
import { surroundings } from './surroundings';

/** A failed start is reported before the end of its process. */
const SETTLING_MS = 500;

export interface Ear {
  /** The process's state, and why. */
  onPhase(phase: Phase, reason: string): void;
  /** A client was created and will start: subscribe to its notifications here. */
  onClient(client: LanguageClient): void;
  middleware: Middleware;
}

export class Server implements vscode.Disposable {
  private readonly backoff = new Backoff();
  private lastStart: Promise<void> = Promise.resolve();
  private starts: Promise<unknown> = Promise.resolve();
  private file = '';
  /** Where the running command was found; undefined before one was. */
  origin: Origin | undefined;
  /** The process has ended, and is being restarted. */
  private waiting = false;
  client: LanguageClient | undefined;

  /** The running command; empty before one was found. */
  get command(): string {
    return this.file;
  }

  constructor(private readonly log: vscode.LogOutputChannel, private readonly own: OwnServer, private readonly ear: Ear) {}

  private get goneAs(): Phase {
    return this.origin === 'the extension' ? 'broken' : 'gone';
  }

  /** Finds the server and starts it, replacing a running one. Returns why there is none, or undefined. */
  start(): Promise<{ problem: string; badSetting: boolean } | undefined> {
    const started = this.starts.then(() => this.startNow()); // one after the other: each stops the one before
    this.starts = started.catch(() => undefined);
    return started;
  }

  private async startNow(): Promise<{ problem: string; badSetting: boolean } | undefined> {
    const found = findServer(await surroundings(this.own.program()));
    await this.stop();
    if ('problem' in found) {
      this.ear.onPhase(found.badSetting ? 'misconfigured' : 'missing', found.problem);
      return found;
    }
    this.log.info(`starting ${found.file} (from ${found.origin})`);
    this.file = found.file;
    this.origin = found.origin;
    this.backoff.reset();
    this.waiting = false;
    this.ear.onPhase('starting', '');
    const client = (this.client = this.newClient(found.file));
    this.ear.onClient(client);
    this.lastStart = client.start().catch((error: unknown) => this.onFailedStart(client, error));
    await this.lastStart;
    return undefined;
  }

  /** Whether a search would now find another command, for example after trust was granted. */
  async wouldChange(): Promise<boolean> {
    const found = findServer(await surroundings(this.own.program()));
    return 'file' in found ? found.file !== this.file : this.client !== undefined;
  }

  async stop(): Promise<void> {
    const client = this.client;
    this.client = undefined;
    await this.lastStart;
    if (client?.state === State.Running || client?.state === State.Starting) {
      await client.stop().catch((error: unknown) => this.log.warn(`stopping: ${String(error)}`));
    }
    await client?.dispose().catch(() => undefined);
  }

  dispose(): void {
    void this.stop();
  }

  private newClient(file: string): LanguageClient {
    const options: LanguageClientOptions = {
      documentSelector: SERVED.map((scheme) => ({ scheme })),
      outputChannel: this.log,
      revealOutputChannelOn: RevealOutputChannelOn.Never,
      initializationOptions: () => startOptions(section(), secrets(), vscode.workspace.isTrusted),
      initializationFailedHandler: () => false,
      errorHandler: { error: () => ({ action: ErrorAction.Continue, handled: true }), closed: () => this.onEnd(client) },
      middleware: this.ear.middleware,
    };
    // Outside the workspace, and without its folders on Python's path.
    const run = { command: file, args: ['serve'], options: { cwd: os.homedir(), env: { ...process.env, PYTHONSAFEPATH: '1' } } };
    const client: LanguageClient = new QuietClient('infill', 'infill-ls', run, options);
    client.registerFeature(new WantsDrafts());
    client.onDidChangeState(({ newState }) => {
      if (newState === State.Running && client === this.client) {
        this.waiting = false;
        this.ear.onPhase('running', '');
      }
    });
    return client;
  }

  private async onEnd(client: LanguageClient): Promise<{ action: CloseAction; handled: boolean }> {
    const pause = client === this.client ? this.backoff.ended() : undefined;
    if (pause === undefined) {
      if (client === this.client) {
        this.ear.onPhase(this.goneAs, `${this.file} ended too often and is not started again; the log says why`);
      }
      return { action: CloseAction.DoNotRestart, handled: true };
    }
    this.waiting = true;
    this.ear.onPhase('waiting', `infill-ls ended; it is started again in ${pause / 1000} s`);
    await new Promise((resolve) => setTimeout(resolve, pause));
    return { action: client === this.client ? CloseAction.Restart : CloseAction.DoNotRestart, handled: true };
  }

  /** `onEnd` restarts a process that has started and ended; this one could not start. */
  private onFailedStart(client: LanguageClient, error: unknown): void {
    setTimeout(() => {
      if (client === this.client && !this.waiting && client.state !== State.Running) {
        const message = error instanceof Error ? error.message : String(error);
        const gone = 'its program, or the Python it was installed with, is gone. Install it again';
        const why = message.includes('ENOENT') ? gone : message;
        this.ear.onPhase(this.goneAs, `${this.file} did not start: ${why}`);
      }
    }, SETTLING_MS);
  }
}

/** Its errors go only to the log: the status bar tells the user once, in our words. */
class QuietClient extends LanguageClient {
  override error(message: string, data?: unknown): void {
    super.error(message, data, false);
  }
}

/** Tells the server that this client draws drafts and next edits, and takes its notifications. */
class WantsDrafts implements StaticFeature {
  fillClientCapabilities(capabilities: ClientCapabilities): void {
    const drafts = vscode.workspace.getConfiguration('infill').get('drafts', true);
    const own = { infillDrafts: drafts, infillNextEdits: true, infillNotifications: true };
    capabilities.experimental = { ...(capabilities.experimental as object | undefined), ...own };
  }
  initialize(): void {
    // nothing to register
  }
  getState(): FeatureState {
    return { kind: 'static' };
  }
  clear(): void {
    // nothing is held
  }
}

/** The settings `infill.*` of this window. A workspace cannot switch on what the user has switched off. */
export function section(): Section {
  const settings = vscode.workspace.getConfiguration('infill');
  const found = JSON.parse(JSON.stringify(settings)) as Section;
  const context = found['context'] as Section | undefined;
  return {
    ...found,
    ...(settings.inspect('prefetch')?.globalValue === false ? { prefetch: false } : {}),
    ...(settings.inspect('nextEdit.enabled')?.globalValue === false ? { nextEdit: { enabled: false } } : {}),
    ...(settings.inspect('context.enabled')?.globalValue === false ? { context: { ...context, enabled: false } } : {}),
  };
}

/** The answer when the server asks for the settings of a folder, or of none. */
export function asked(folder: string | undefined): Section {
  const settings = vscode.workspace.getConfiguration('infill', folder === undefined ? undefined : vscode.Uri.parse(folder));
  return changeable(JSON.parse(JSON.stringify(settings)) as Section, settings.inspect('secretGlobs'), section());
}

function secrets(): { globalValue?: unknown; workspaceValue?: unknown; workspaceFolderValue?: unknown } | undefined {
  return vscode.workspace.getConfiguration('infill').inspect('secretGlobs');
}
