/** Drafts as text beside the code: not in the document, tinted by confidence, removed when the answer arrives. */
import * as vscode from 'vscode';
import { drawn, drawnAround, type Drawing, MOST_PIECES, type Piece, type Tint } from './draft_text';
import type { Draft, DraftHole } from './wire';

const COLORS: Readonly<Record<Tint, vscode.ThemeColor>> = {
  unsure: new vscode.ThemeColor('infill.draftUnsure'),
  likely: new vscode.ThemeColor('infill.draftLikely'),
  sure: new vscode.ThemeColor('infill.draftSure'),
};

/** One place, and its replacement text. */
export interface Proposal {
  range: vscode.Range;
  pieces: Piece[];
  whole: string;
}

export class DraftView implements vscode.Disposable {
  /** VS Code draws decorations at one place in the order of their types' keys, so that each piece has a type. */
  private readonly slots = Array.from({ length: MOST_PIECES }, () => vscode.window.createTextEditorDecorationType({}))
    .sort((one, other) => (one.key < other.key ? -1 : 1));
  private readonly replaced = vscode.window.createTextEditorDecorationType({
    opacity: '0.45',
    textDecoration: 'line-through',
  });
  /** What each editor shows, by type: unchanged decorations are not set again, to avoid flicker. */
  private readonly shown = new Map<vscode.TextEditor, Map<vscode.TextEditorDecorationType, string>>();

  /** Draws a draft in every editor that shows its document, unless the document has moved on. */
  showDraft(draft: Draft): void {
    const document = openDocument(draft.uri);
    if (document?.version === draft.version) {
      const strike = draft.kind === 'action';
      this.show(document, draft.holes.flatMap((hole) => proposalsOf(document, hole, strike)), strike);
    }
  }

  /** Draws proposals, replacing any earlier drawing. `strike`: strikes through the text they would replace. */
  show(document: vscode.TextDocument, proposals: readonly Proposal[], strike: boolean): void {
    const editors = vscode.window.visibleTextEditors.filter((editor) => editor.document === document);
    for (const editor of this.shown.keys()) {
      if (!editors.includes(editor)) {
        this.draw(editor, [], false);
        this.shown.delete(editor);
      }
    }
    editors.forEach((editor) => this.draw(editor, proposals, strike));
  }

  clear(): void {
    for (const editor of this.shown.keys()) {
      this.draw(editor, [], false);
    }
    this.shown.clear();
  }

  dispose(): void {
    [this.replaced, ...this.slots].forEach((type) => type.dispose());
  }

  private draw(editor: vscode.TextEditor, proposals: readonly Proposal[], strike: boolean): void {
    for (const [slot, type] of this.slots.entries()) {
      this.set(editor, type, proposals.flatMap((proposal) => decoration(proposal, slot)));
    }
    this.set(editor, this.replaced, strike ? proposals.map((proposal) => replaced(editor, proposal)) : []);
  }

  private set(editor: vscode.TextEditor, type: vscode.TextEditorDecorationType, options: vscode.DecorationOptions[]): void {
    const shown = this.shown.get(editor) ?? new Map<vscode.TextEditorDecorationType, string>();
    const now = options.length === 0 ? '' : JSON.stringify(options);
    if (now !== (shown.get(type) ?? '')) {
      editor.setDecorations(type, options);
      this.shown.set(editor, shown.set(type, now));
    }
  }
}

/** A hole of a draft as proposals: several where brackets in it stay. */
function proposalsOf(document: vscode.TextDocument, hole: DraftHole, strike: boolean): Proposal[] {
  const { range, text, pieces, confidences } = hole;
  const place = new vscode.Range(range.start.line, range.start.character, range.end.line, range.end.character);
  return strike
    ? [proposal(document, place, text, pieces, confidences)]
    : drawnAround(pieces, confidences, document.getText(place)).map((drawing) => placed(document, place, text, drawing));
}

/** `text`, in pieces, for a place of a document; text already there is neither drawn again nor struck through. */
export function proposal(
  document: vscode.TextDocument,
  place: vscode.Range,
  text: string,
  pieces: readonly string[],
  confidences: readonly number[],
): Proposal {
  return placed(document, place, text, drawn(pieces, confidences, document.getText(place)));
}

function placed(document: vscode.TextDocument, place: vscode.Range, whole: string, drawing: Drawing): Proposal {
  const at = document.offsetAt(place.start);
  const range = new vscode.Range(document.positionAt(at + drawing.start), document.positionAt(at + drawing.end));
  return { range, pieces: drawing.pieces, whole };
}

function decoration({ range, pieces }: Proposal, slot: number): vscode.DecorationOptions[] {
  const piece = pieces[slot];
  if (piece === undefined) {
    return [];
  }
  const after = {
    contentText: piece.text.replaceAll(' ', '\u00a0'), // plain blanks at the ends would be dropped
    color: COLORS[piece.tint],
    fontStyle: 'italic',
  };
  return [{ range: new vscode.Range(range.end, range.end), renderOptions: { after } }];
}

/** The text to replace; hovering over it shows the whole replacement. */
function replaced(editor: vscode.TextEditor, { range, whole }: Proposal): vscode.DecorationOptions {
  const hoverMessage = new vscode.MarkdownString().appendCodeblock(whole, editor.document.languageId);
  return { range, hoverMessage };
}

function openDocument(uri: string): vscode.TextDocument | undefined {
  const wanted = vscode.Uri.parse(uri).toString();
  return vscode.workspace.textDocuments.find((document) => document.uri.toString() === wanted);
}
