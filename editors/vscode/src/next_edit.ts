/** The next edit: what no longer fits after a change, one place after the other. Tab jumps there, then accepts it. */
import * as vscode from 'vscode';
import { ExecuteCommandRequest, type LanguageClient } from 'vscode-languageclient/node';
import { DraftView, proposal } from './draft_view';
import { DID_REJECT, DID_SHOW_INLINE_EDIT, INLINE_EDIT, type InlineEdit } from './wire';

const CONTEXT = 'infill.nextEdit';

/** The server is told of a change, and then asked; it waits for a pause itself. */
const ASK_MS = 30;

interface Offer {
  document: vscode.TextDocument;
  version: number;
  range: vscode.Range;
  edit: InlineEdit;
}

/** What to show, valid only while the text is unchanged. Never shown beside a suggestion at the cursor. */
export class NextEdits implements vscode.Disposable {
  private readonly view = new DraftView();
  private readonly hint = vscode.window.createTextEditorDecorationType({});
  private offer: Offer | undefined;
  /** An offer hidden by a suggestion at the cursor. */
  private hidden: Offer | undefined;
  private asking: { cancel: vscode.CancellationTokenSource; timer: NodeJS.Timeout } | undefined;
  /** What the user dismissed: the same in another place is not shown before they write something. */
  private dismissed: { document: vscode.TextDocument; before: string; after: string }[] = [];
  /** The cursor moves to the next place automatically, after one was accepted. */
  private follows = false;
  private readonly listeners = [
    vscode.workspace.onDidChangeTextDocument((event) => event.contentChanges.length > 0 && this.onChange(event)),
    vscode.workspace.onDidCloseTextDocument((document) => this.onClose(document)),
    vscode.window.onDidChangeTextEditorSelection(() => this.hidden && this.show(this.hidden)),
    vscode.window.onDidChangeActiveTextEditor((editor) => { this.enter(editor); }),
  ];

  constructor(
    private readonly client: () => LanguageClient | undefined,
    private readonly isSuggesting: (document: vscode.TextDocument) => boolean,
    private readonly isSnoozed: () => boolean,
  ) {}

  /** A suggestion appears at the cursor: the drawing makes way for it. */
  hide(): void {
    const offer = this.offer;
    this.clear();
    this.hidden = offer;
  }

  /** Jumps to the visible place, or accepts it if the cursor is on its line. */
  async accept(): Promise<void> {
    const editor = vscode.window.activeTextEditor;
    const offer = this.offer;
    if (offer === undefined || editor?.document !== offer.document || offer.document.version !== offer.version) {
      return;
    }
    if (editor.selection.active.line !== offer.range.start.line) {
      jump(editor, offer.range.start);
      return;
    }
    this.clear();
    this.follows = true;
    const { edit, range } = offer;
    const isTaken = await editor.edit((builder) => builder.replace(range, edit.text), { undoStopBefore: true, undoStopAfter: true });
    const client = this.client();
    if (isTaken && client !== undefined) {
      const end = offer.document.positionAt(offer.document.offsetAt(range.start) + edit.text.length);
      editor.selection = new vscode.Selection(end, end);
      await client.sendRequest(ExecuteCommandRequest.type, edit.command);
    }
  }

  /** Dismisses the place; it does not come back. */
  dismiss(): void {
    const offer = this.offer;
    this.clear();
    if (offer !== undefined && offer.document.version === offer.version) {
      this.dismissed.push({ document: offer.document, before: offer.document.getText(offer.range), after: offer.edit.text });
    }
    const uri = offer && this.client()?.code2ProtocolConverter.asUri(offer.document.uri);
    if (offer !== undefined && uri !== undefined) {
      void this.client()?.sendNotification(DID_REJECT, { textDocument: { uri }, id: offer.edit.command.arguments[0] });
    }
  }

  /** Something may follow in this document from a change in another one, or a snooze begins or ends. */
  enter(editor: vscode.TextEditor | undefined): void {
    this.clear();
    if (editor !== undefined) {
      this.ask(editor.document);
    }
  }

  dispose(): void {
    this.clear();
    [this.view, this.hint, ...this.listeners].forEach((part) => { part.dispose(); });
  }


  private onClose(document: vscode.TextDocument): void {
    this.dismissed = this.dismissed.filter((one) => one.document !== document);
    if (document === this.offer?.document) {
      this.clear();
    }
  }

  private onChange({ document, reason }: vscode.TextDocumentChangeEvent): void {
    if (reason === undefined) { // neither undo nor redo
      this.dismissed = this.dismissed.filter((one) => one.document !== document);
    }
    this.ask(document);
  }

  private ask(document: vscode.TextDocument): void {
    const follows = this.follows;
    this.clear();
    this.follows = follows;
    const client = this.client();
    const editor = vscode.window.activeTextEditor;
    if (editor?.document !== document || client?.isRunning() !== true || this.isSnoozed()) {
      return;
    }
    const cancel = new vscode.CancellationTokenSource();
    const timer = setTimeout(() => void this.asked(client, editor, cancel.token), ASK_MS);
    this.asking = { cancel, timer };
  }

  private async asked(client: LanguageClient, editor: vscode.TextEditor, token: vscode.CancellationToken): Promise<void> {
    const { document } = editor;
    const { version } = document;
    const converter = client.code2ProtocolConverter;
    const params = {
      textDocument: converter.asVersionedTextDocumentIdentifier(document),
      position: converter.asPosition(editor.selection.active),
      context: { triggerKind: 2 },
    };
    const asked: Promise<{ edits: InlineEdit[] } | null> = client.sendRequest(INLINE_EDIT, params, token);
    const answer = await asked.catch(() => null);
    const edit = answer?.edits[0];
    if (edit === undefined || edit.textDocument.version !== version || token.isCancellationRequested) {
      return;
    }
    const range = client.protocol2CodeConverter.asRange(edit.range);
    const before = document.getText(range);
    if (!this.dismissed.some((one) => one.document === document && one.before === before && one.after === edit.text)) {
      this.show({ document, version, edit, range });
    }
  }

  private show(offer: Offer): void {
    const editor = vscode.window.activeTextEditor;
    this.hidden = undefined;
    if (editor?.document !== offer.document || offer.document.version !== offer.version) {
      return;
    }
    if (this.isSuggesting(offer.document)) {
      this.hidden = offer;
      return;
    }
    this.offer = offer;
    void vscode.commands.executeCommand('setContext', CONTEXT, true).then(() => this.draw(editor, offer));
  }

  /** Draws an offer once its keys work, unless it has gone meanwhile. */
  private draw(editor: vscode.TextEditor, offer: Offer): void {
    if (this.offer !== offer) {
      return;
    }
    const { document, range, edit } = offer;
    if (this.follows) {
      jump(editor, range.start);
    }
    this.follows = false;
    this.view.show(document, [proposal(document, range, edit.text, [edit.text], [1])], true);
    const inSight = editor.visibleRanges.some((visible) => visible.contains(range.start));
    editor.setDecorations(this.hint, inSight ? [] : [hintAt(editor, range.start.line)]);
    void this.client()?.sendNotification(DID_SHOW_INLINE_EDIT, { item: edit });
  }

  private clear(): void {
    this.asking?.cancel.cancel();
    clearTimeout(this.asking?.timer);
    this.asking = this.hidden = undefined;
    this.follows = false;
    if (this.offer !== undefined) {
      this.offer = undefined;
      this.view.clear();
      vscode.window.visibleTextEditors.forEach((editor) => editor.setDecorations(this.hint, []));
      void vscode.commands.executeCommand('setContext', CONTEXT, false);
    }
  }
}

function jump(editor: vscode.TextEditor, place: vscode.Position): void {
  editor.selection = new vscode.Selection(place, place);
  editor.revealRange(new vscode.Range(place, place), vscode.TextEditorRevealType.InCenterIfOutsideViewport);
}

/** Says at the cursor where a place out of sight is. */
function hintAt(editor: vscode.TextEditor, line: number): vscode.DecorationOptions {
  const { range } = editor.document.lineAt(editor.selection.active.line);
  const color = new vscode.ThemeColor('editorCodeLens.foreground');
  return { range: new vscode.Range(range.end, range.end), renderOptions: { after: { contentText: `  Tab: line ${line + 1}`, color } } };
}
