/** Inline completion: drafts while the server computes, and reports of accepted or rejected suggestions. */
import * as vscode from 'vscode';
import type { LanguageClient, Middleware } from 'vscode-languageclient/node';
import type { DraftView } from './draft_view';
import { hasOwnList } from './own_list';
import { isLeft, type Offered, takenBy } from './suggestion';
import { DID_ACCEPT, DID_REJECT, DID_REST, type Draft } from './wire';

type Items = vscode.InlineCompletionItem[] | vscode.InlineCompletionList | null | undefined;

const CONTEXT = 'infill.suggesting';

/** After this long in one place the cursor rests. */
const REST_MS = 100;

export class Inline implements vscode.Disposable {
  private asked: { uri: string; version: number } | undefined;
  private offered: { document: vscode.TextDocument; items: Offered[]; isAutomatic: boolean } | undefined;
  private resting: NodeJS.Timeout | undefined;
  private readonly listeners = [
    vscode.workspace.onDidChangeTextDocument((event) => this.onChange(event)),
    vscode.window.onDidChangeTextEditorSelection(() => this.onMove()),
    vscode.window.onDidChangeActiveTextEditor(() => this.onMove()),
  ];

  /** `onOffered` is called when a suggestion is shown, `onNothing` when there is none; during a snooze none comes by itself. */
  constructor(
    private readonly view: DraftView,
    private readonly client: () => LanguageClient | undefined,
    private readonly onOffered: () => void,
    private readonly onNothing: (document: vscode.TextDocument, position: vscode.Position, isAutomatic: boolean) => void,
    private readonly isSnoozed: () => boolean,
  ) {}

  readonly middleware: Pick<Middleware, 'provideInlineCompletionItems'> = {
    provideInlineCompletionItems: async (document, position, context, token, next) => {
      const isAutomatic = context.triggerKind === vscode.InlineCompletionTriggerKind.Automatic;
      const isListOpen = context.selectedCompletionInfo !== undefined;
      if (isAutomatic && (this.isSnoozed() || (!isListOpen && (await hasOwnList(document, position))))) {
        this.forget();
        return [];
      }
      const asked = (this.asked = { uri: document.uri.toString(), version: document.version });
      const cancelled = token.onCancellationRequested(() => this.settle(asked));
      try {
        const items = await next(document, position, context, token);
        if (!this.remember(document, items, isAutomatic) && !token.isCancellationRequested) {
          this.onNothing(document, position, isAutomatic);
        }
        return items;
      } finally {
        cancelled.dispose();
        this.settle(asked);
      }
    },
  };

  /** A draft is drawn only while its request is pending. */
  onDraft(draft: Draft): void {
    const asked = this.asked;
    if (asked?.version === draft.version && asked.uri === vscode.Uri.parse(draft.uri).toString()) {
      this.view.showDraft(draft);
    }
  }

  /** The id of our suggestion at the cursor of `document`; undefined if there is none, or all of it was accepted. */
  onScreen(document: vscode.TextDocument): string | undefined {
    const editor = vscode.window.activeTextEditor;
    if (this.offered?.document !== document || editor?.document !== document || !editor.selection.isEmpty) {
      return undefined;
    }
    const cursor = document.offsetAt(editor.selection.active);
    return this.offered.items.find((item) => isLeft(item, cursor, textFrom(document, item.start, cursor)))?.id;
  }

  /**
   * There is a better suggestion than the visible one, which stays until it is replaced. VS Code keeps the visible one
   * when it asks again; the next one, for which it asks explicitly, is then first in the answer. It does not ask
   * explicitly twice for the same text: then the visible one has to go first.
   */
  async onRefined({ uri, id }: { uri: string; id: string }): Promise<void> {
    const document = vscode.window.activeTextEditor?.document;
    if (document?.uri.toString() === vscode.Uri.parse(uri).toString() && this.onScreen(document) === id) {
      if (this.offered?.isAutomatic) {
        await vscode.commands.executeCommand('editor.action.inlineSuggest.showNext');
      } else {
        await vscode.commands.executeCommand('editor.action.inlineSuggest.hide');
        await vscode.commands.executeCommand('editor.action.inlineSuggest.trigger');
      }
    }
  }

  /** Escape on one of our suggestions: hides it, and tells the server. */
  async reject(): Promise<void> {
    const rejected = this.offered;
    this.forget();
    await vscode.commands.executeCommand('editor.action.inlineSuggest.hide');
    const cursor = vscode.window.activeTextEditor?.selection.active;
    const first = rejected?.items[0];
    if (rejected === undefined || first === undefined || cursor === undefined) {
      return;
    }
    const standing = textFrom(rejected.document, first.start, rejected.document.offsetAt(cursor));
    if (first.text.startsWith(standing)) { // else another extension's text was shown
      this.tell(DID_REJECT, rejected.document, { id: first.id });
    }
  }

  dispose(): void {
    clearTimeout(this.resting);
    for (const listener of this.listeners) {
      listener.dispose();
    }
  }

  /** The server reads the place where the cursor rests before anything is typed there. */
  private onMove(): void {
    clearTimeout(this.resting);
    this.resting = setTimeout(() => {
      const editor = vscode.window.activeTextEditor;
      if (editor?.selection.isEmpty && !this.isSnoozed()) {
        const { line, character } = editor.selection.active;
        this.tell(DID_REST, editor.document, { position: { line, character } });
      }
    }, REST_MS);
  }

  private settle(asked: object): void {
    if (this.asked === asked) {
      this.asked = undefined;
      this.view.clear();
    }
  }

  /** Whether there are suggestions in `answer`. */
  private remember(document: vscode.TextDocument, answer: Items, isAutomatic: boolean): boolean {
    const items = (Array.isArray(answer) ? answer : (answer?.items ?? [])).flatMap((item) => offeredBy(document, item));
    if (items.length === 0) {
      this.forget();
    } else {
      this.offered = { document, items, isAutomatic };
      this.onOffered();
      void vscode.commands.executeCommand('setContext', CONTEXT, true);
    }
    return items.length > 0;
  }

  private forget(): void {
    if (this.offered !== undefined) {
      this.offered = undefined;
      void vscode.commands.executeCommand('setContext', CONTEXT, false);
    }
  }

  private onChange({ document, contentChanges }: vscode.TextDocumentChangeEvent): void {
    const [change, ...others] = contentChanges;
    if (change === undefined || others.length > 0 || this.offered?.document !== document) {
      return;
    }
    const edit = { offset: change.rangeOffset, length: change.rangeLength, text: change.text };
    for (const item of this.offered.items) {
      const acceptedLength = takenBy(edit, item, textFrom(document, item.start, change.rangeOffset));
      if (acceptedLength !== undefined) {
        this.tell(DID_ACCEPT, document, { id: item.id, acceptedLength });
        return;
      }
    }
  }

  private tell(method: string, document: vscode.TextDocument, more: object): void {
    const uri = this.client()?.code2ProtocolConverter.asUri(document.uri);
    void this.client()?.sendNotification(method, { textDocument: { uri }, ...more });
  }
}

/** The remembered part of an item; none if the server gave it no id. */
function offeredBy(document: vscode.TextDocument, item: vscode.InlineCompletionItem): Offered[] {
  const id: unknown = item.command?.arguments?.[0];
  const text = typeof item.insertText === 'string' ? item.insertText : item.insertText.value;
  return typeof id === 'string' && item.range ? [{ id, start: document.offsetAt(item.range.start), text }] : [];
}

function textFrom(document: vscode.TextDocument, start: number, end: number): string {
  return start <= end ? document.getText(new vscode.Range(document.positionAt(start), document.positionAt(end))) : '';
}
