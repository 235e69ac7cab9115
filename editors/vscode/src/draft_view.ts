/** Drafts as text beside the code: not in the document, tinted by confidence, gone when the answer is there. */
import * as vscode from 'vscode';
import { drawn, MOST_PIECES, type Piece, type Tint } from './draft_text';
import type { Draft, DraftHole } from './wire';

const COLORS: Readonly<Record<Tint, vscode.ThemeColor>> = {
  unsure: new vscode.ThemeColor('infill.draftUnsure'),
  likely: new vscode.ThemeColor('infill.draftLikely'),
  sure: new vscode.ThemeColor('infill.draftSure'),
};

/** One place where text is to stand in the stead of what is there. */
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
  private shownIn: vscode.TextEditor[] = [];

  /** Draws a draft in every editor that shows its document, unless the document has moved on. */
  showDraft(draft: Draft): void {
    const document = openDocument(draft.uri);
    if (document?.version === draft.version) {
      const strike = draft.kind === 'action';
      this.show(document, draft.holes.map((hole) => proposalOf(document, hole)), strike);
    }
  }

  /** Draws proposals. `strike`: what they would replace is struck through. */
  show(document: vscode.TextDocument, proposals: readonly Proposal[], strike: boolean): void {
    this.clear();
    this.shownIn = vscode.window.visibleTextEditors.filter((editor) => editor.document === document);
    for (const editor of this.shownIn) {
      this.draw(editor, proposals, strike);
    }
  }

  clear(): void {
    for (const editor of this.shownIn) {
      [this.replaced, ...this.slots].forEach((type) => editor.setDecorations(type, []));
    }
    this.shownIn = [];
  }

  dispose(): void {
    [this.replaced, ...this.slots].forEach((type) => type.dispose());
  }

  private draw(editor: vscode.TextEditor, proposals: readonly Proposal[], strike: boolean): void {
    for (const [slot, type] of this.slots.entries()) {
      editor.setDecorations(type, proposals.flatMap((proposal) => decoration(proposal, slot)));
    }
    if (strike) {
      editor.setDecorations(this.replaced, proposals.map(({ range, whole }) => ({ range, hoverMessage: hover(editor, whole) })));
    }
  }
}

/** A hole of a draft as a proposal; what stands there already is not drawn again. */
export function proposalOf(document: vscode.TextDocument, hole: DraftHole): Proposal {
  const { start, end } = hole.range;
  const range = new vscode.Range(start.line, start.character, end.line, end.character);
  return { range, pieces: drawn(hole.pieces, hole.confidences, document.getText(range)), whole: hole.text };
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

function hover(editor: vscode.TextEditor, text: string): vscode.MarkdownString {
  return new vscode.MarkdownString().appendCodeblock(text, editor.document.languageId);
}

function openDocument(uri: string): vscode.TextDocument | undefined {
  const wanted = vscode.Uri.parse(uri).toString();
  return vscode.workspace.textDocuments.find((document) => document.uri.toString() === wanted);
}
