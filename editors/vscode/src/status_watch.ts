/** Keeps the status bar current: the server's state, and whether the active file gets fills. */
import * as vscode from 'vscode';
import { type LanguageClient, MessageType, ShowMessageNotification, type ShowMessageParams, State } from 'vscode-languageclient/node';
import { offByScheme } from './schemes';
import { isFailure, lookOf, lookWithout, type Server as Phase, snoozed } from './status';
import type { StatusBar } from './status_bar';
import { STATUS, STATUS_CHANGED, type StatusReport } from './wire';

/** How long the bar shows why an explicit request found nothing. */
const REASON_MS = 8000;
/** After no suggestion has come for so long, the tooltip says why. */
const SILENCE_MS = 500;

export class StatusWatch implements vscode.Disposable {
  private phase: Phase = 'starting';
  private reason = '';
  private report: StatusReport | undefined;
  private off: string | null = null;
  /** The last message to the user: the server may send it both as a state and as a message. */
  private said = '';
  private silence: NodeJS.Timeout | undefined;
  private readonly listeners: vscode.Disposable;

  /** `snooze` returns the minutes left. `onReady` is called whenever the server says that its model is ready. */
  constructor(
    private readonly bar: StatusBar,
    private readonly client: () => LanguageClient | undefined,
    private readonly snooze: () => number,
    private readonly onReady: () => void,
  ) {
    this.listeners = vscode.Disposable.from(
      vscode.window.onDidChangeActiveTextEditor(() => this.ask()),
      vscode.workspace.onDidOpenTextDocument(() => this.ask()),
    );
    this.draw();
  }

  /** Listens to a client that is about to start. */
  listen(client: LanguageClient): void {
    client.onNotification(ShowMessageNotification.type, (message) => this.onMessage(message));
    client.onNotification(STATUS_CHANGED, (report: StatusReport) => {
      const failed = isFailure(report) && !(this.report !== undefined && isFailure(this.report));
      this.report = report;
      if (report.state === 'ready') {
        this.said = '';
        this.onReady();
      }
      this.draw();
      if (failed) {
        void this.explain(report.detail);
      }
    });
  }

  onPhase(phase: Phase, reason: string): void {
    [this.phase, this.reason, this.report] = [phase, reason, undefined];
    this.draw();
    if (phase === 'running') {
      this.ask();
    } else if (phase === 'gone' || phase === 'broken') {
      void this.explain(reason);
    }
  }

  /** Asks for the server's status, and whether the active document is off. */
  ask(): void {
    const client = this.client();
    if (client?.state === State.Running) {
      void this.update(client).catch(() => undefined); // a server that is ending: its end is shown instead
    }
  }

  /** A suggestion is shown, so the tooltip no longer says why there was none. */
  onOffered(): void {
    clearTimeout(this.silence);
    if (this.report?.noSuggestion) {
      this.report.noSuggestion = null;
      this.draw();
    }
  }

  /** Says why there is no suggestion: in the tooltip, and in the bar if the user has asked for one. */
  onNothing(document: vscode.TextDocument, position: vscode.Position, isAutomatic: boolean): void {
    clearTimeout(this.silence);
    const tell = async (): Promise<void> => {
      const client = this.client();
      const report = client?.state === State.Running ? await this.update(client, document, position) : undefined;
      const reason = report?.off ?? report?.noSuggestion ?? report?.noHole;
      if (reason && !isAutomatic) {
        vscode.window.setStatusBarMessage(`$(info) infill: ${reason}`, REASON_MS);
      }
    };
    this.silence = setTimeout(() => void tell().catch(() => undefined), isAutomatic ? SILENCE_MS : 0);
  }

  /** Shows the last report again, with the snooze. */
  draw(): void {
    const look = this.phase === 'running' && this.report !== undefined
      ? lookOf({ ...this.report, off: this.off })
      : lookWithout(this.phase === 'running' ? 'starting' : this.phase, this.reason);
    this.bar.show(snoozed(look, this.snooze()));
  }

  dispose(): void {
    clearTimeout(this.silence);
    this.listeners.dispose();
  }

  private async update(
    client: LanguageClient, document = vscode.window.activeTextEditor?.document, position?: vscode.Position,
  ): Promise<StatusReport> {
    const foreign = document && offByScheme(document.uri.scheme);
    const uri = document && foreign === undefined ? client.code2ProtocolConverter.asUri(document.uri) : undefined;
    const report: StatusReport = await client.sendRequest(STATUS, uri === undefined ? {} : { textDocument: { uri }, position });
    if (document === vscode.window.activeTextEditor?.document) {
      this.report = report;
      this.off = foreign ?? report.off ?? null;
      this.draw();
    }
    return report;
  }

  private onMessage({ type, message }: ShowMessageParams): void {
    if (type === MessageType.Error) {
      void this.explain(message.replace(/^infill-ls: /, ''));
    } else if (type === MessageType.Warning) {
      void vscode.window.showWarningMessage(message);
    } else {
      void vscode.window.showInformationMessage(message);
    }
  }

  private async explain(reason: string): Promise<void> {
    if (reason === this.said) {
      return;
    }
    this.said = reason;
    const [restart, log] = ['Restart', 'Show Log'];
    const choice = await vscode.window.showWarningMessage(`infill-ls: ${reason || 'the worker failed'}`, restart, log);
    if (choice !== undefined) {
      await vscode.commands.executeCommand(choice === restart ? 'infill.restart' : 'infill.showLog');
    }
  }
}
