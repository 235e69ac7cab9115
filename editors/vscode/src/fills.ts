/** Explicit fills: commands, one at a time, previewed and cancellable; and the light bulb's actions. */
import * as vscode from 'vscode';
import {
  type ApplyWorkspaceEditParams,
  type ApplyWorkspaceEditResult,
  ExecuteCommandRequest,
  type LanguageClient,
  type Range,
  type ResolveCodeActionSignature,
  type ResponseError,
} from 'vscode-languageclient/node';
import type { DraftView } from './draft_view';
import type { Preview } from './preview';
import { explain, showProgress, warn } from './say';
import { type Applied, DISCARDED, type Draft } from './wire';

const CONTEXT = 'infill.filling';

/** The reply to the server's edit. */
export type Outcome = ApplyWorkspaceEditResult | ResponseError;

export interface Order {
  command: string;
  strength?: number;
  instruction?: string;
  /** The target, if it is not the selection. */
  range?: Range;
  /** The document version of that place, if it is not the current one. */
  version?: number;
}

/** One pending fill. */
interface Running {
  document: vscode.TextDocument;
  cancel: vscode.CancellationTokenSource;
  /** Ends the progress display: the fill has arrived, and the user decides. */
  computed: () => void;
}

export class Fills {
  private running: Running | undefined;
  private resolvingNow = 0;
  private applying = false;
  private count = 0;

  constructor(
    private readonly view: DraftView,
    private readonly preview: Preview,
  ) {}

  /** Asks the server for a fill around the selection of `editor`, and says why if there is none. */
  async run(client: LanguageClient, editor: vscode.TextEditor, { command, ...more }: Order): Promise<void> {
    this.stop();
    const running: Running = (this.running = {
      document: editor.document,
      cancel: new vscode.CancellationTokenSource(),
      computed: () => undefined,
    });
    const computed = new Promise<void>((resolve) => (running.computed = resolve));
    const stale = vscode.workspace.onDidChangeTextDocument((event) => this.stopIfTyped(running, event));
    const uri = client.code2ProtocolConverter.asUri(editor.document.uri);
    const range = client.code2ProtocolConverter.asRange(editor.selection);
    const params = { command, arguments: [{ uri, range, version: editor.document.version, ...more }], workDoneToken: `infill/${++this.count}` };
    setContext(true);
    try {
      const answer = client.sendRequest(ExecuteCommandRequest.type, params, running.cancel.token);
      showProgress('infill-ls: filling (Escape stops it)', Promise.race([answer, computed]));
      explain((await answer) as Applied | null);
    } catch (error) {
      if (!running.cancel.token.isCancellationRequested) {
        warn(error);
      }
    } finally {
      stale.dispose();
      running.cancel.dispose();
      this.ended(running);
    }
  }

  /** The server's edit: previewed if it answers a command, then applied by `apply`. */
  async onEdit(
    client: LanguageClient | undefined,
    params: ApplyWorkspaceEditParams,
    apply: () => Promise<Outcome>,
  ): Promise<Outcome> {
    const running = this.running;
    if (client !== undefined && running !== undefined && previews()) {
      const edit = await client.protocol2CodeConverter.asWorkspaceEdit(params.edit);
      if (!(await this.taken(running, edit))) {
        return { applied: false, failureReason: DISCARDED };
      }
    }
    this.applying = true;
    try {
      return await apply();
    } finally {
      this.applying = false;
    }
  }

  /** An action of the light bulb is being computed: draws its drafts until it arrives. */
  async resolving(
    action: vscode.CodeAction,
    token: vscode.CancellationToken,
    next: ResolveCodeActionSignature,
  ): Promise<vscode.CodeAction | null | undefined> {
    this.resolvingNow++;
    try {
      return await next(action, token);
    } catch (error) {
      warn(error);
      return action;
    } finally {
      this.resolvingNow--;
      this.view.clear();
    }
  }

  /** A draft of the current fill; drops a late one. */
  onDraft(draft: Draft): void {
    const awaited = this.running !== undefined && !this.preview.isOpen;
    if (awaited || this.resolvingNow > 0) {
      this.view.showDraft(draft);
    }
  }

  /** Stops the running or previewed fill; applies nothing. */
  stop(): void {
    this.preview.decide(false);
    this.running?.cancel.cancel();
  }

  /** Whether the user accepts `edit`. One that touches other files is applied without a preview. */
  private async taken(running: Running, edit: vscode.WorkspaceEdit): Promise<boolean> {
    const [only, ...others] = edit.entries();
    if (only === undefined || others.length > 0 || only[0].toString() !== running.document.uri.toString()) {
      return true;
    }
    if (running.cancel.token.isCancellationRequested) {
      return false;
    }
    running.computed();
    return this.preview.show(running.document, only[1]);
  }

  private stopIfTyped(running: Running, event: vscode.TextDocumentChangeEvent): void {
    if (event.document === running.document && event.contentChanges.length > 0 && !this.applying) {
      running.cancel.cancel();
    }
  }

  private ended(running: Running): void {
    if (this.running === running) {
      this.running = undefined;
      this.view.clear();
      setContext(false);
    }
  }
}

function previews(): boolean {
  return vscode.workspace.getConfiguration('infill').get('preview', true);
}

function setContext(filling: boolean): void {
  void vscode.commands.executeCommand('setContext', CONTEXT, filling);
}
