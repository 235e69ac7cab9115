/** A fill previewed in place: Enter accepts it, Escape or typing discards it. */
import * as vscode from 'vscode';
import { type DraftView, type Proposal, proposal } from './draft_view';

const CONTEXT = 'infill.previewing';

export class Preview implements vscode.Disposable, vscode.CodeLensProvider {
  private open: { document: vscode.TextDocument; proposals: Proposal[]; keysWork: boolean; decide: (take: boolean) => void } | undefined;
  private hint: vscode.Disposable | undefined;
  private readonly lensesChanged = new vscode.EventEmitter<void>();
  readonly onDidChangeCodeLenses = this.lensesChanged.event;
  private readonly listeners: vscode.Disposable;

  constructor(private readonly view: DraftView) {
    this.listeners = vscode.Disposable.from(
      vscode.languages.registerCodeLensProvider([{ scheme: 'file' }, { scheme: 'untitled' }], this),
      vscode.workspace.onDidChangeTextDocument((event) => this.leaveIf(event.document, event.contentChanges.length > 0)),
      vscode.workspace.onDidCloseTextDocument((document) => this.leaveIf(document, true)),
      vscode.window.onDidChangeVisibleTextEditors(() => this.redraw()),
    );
  }

  /** Whether a fill is visible and undecided. */
  get isOpen(): boolean {
    return this.open !== undefined;
  }

  /** Shows `edits` of one document. Returns whether they were accepted; false if the document has changed. */
  async show(document: vscode.TextDocument, edits: readonly vscode.TextEdit[]): Promise<boolean> {
    this.decide(false);
    const proposals = edits.map((edit) => proposalOf(document, edit));
    const taken = new Promise<boolean>((resolve) => {
      this.open = { document, proposals, keysWork: false, decide: resolve };
    });
    this.redraw();
    this.changed(true);
    return taken;
  }

  /** The user has decided, or an edit has. Nothing happens when no fill is shown. */
  decide(take: boolean): void {
    const shown = this.open;
    if (shown !== undefined) {
      this.open = undefined;
      this.view.clear();
      this.changed(false);
      shown.decide(take);
    }
  }

  provideCodeLenses(document: vscode.TextDocument): vscode.CodeLens[] {
    const first = this.open?.document === document ? this.open.proposals[0]?.range : undefined;
    if (first === undefined || !this.open?.keysWork) {
      return [];
    }
    return [
      new vscode.CodeLens(first, { title: '$(check) Accept (Enter)', command: 'infill.accept' }),
      new vscode.CodeLens(first, { title: '$(close) Discard (Escape)', command: 'infill.discard' }),
    ];
  }

  dispose(): void {
    this.decide(false);
    this.listeners.dispose();
    this.lensesChanged.dispose();
  }

  private leaveIf(document: vscode.TextDocument, changed: boolean): void {
    if (changed && this.open?.document === document) {
      this.decide(false);
    }
  }

  private redraw(): void {
    if (this.open !== undefined) {
      this.view.show(this.open.document, this.open.proposals, true);
    }
  }

  /** The lenses name the keys, so they come once the keys work. */
  private changed(shown: boolean): void {
    const open = this.open;
    void vscode.commands.executeCommand('setContext', CONTEXT, shown).then(() => {
      if (open !== undefined) {
        open.keysWork = true;
      }
      this.lensesChanged.fire();
    });
    this.hint?.dispose();
    this.hint = shown ? vscode.window.setStatusBarMessage('infill-ls: Enter takes it, Escape leaves it') : undefined;
  }
}

/** An edit as a proposal. It is the model's final text, so all of it is drawn as sure. */
function proposalOf(document: vscode.TextDocument, edit: vscode.TextEdit): Proposal {
  return proposal(document, edit.range, edit.newText, [edit.newText], [1]);
}
