/** The messages beyond the LSP, as editors/README.md has them. */
import type { Range } from 'vscode-languageclient/node';

export const STATUS = 'infill/status';
export const STATUS_CHANGED = 'infill/didChangeStatus';
export const MODEL_OFFER = 'infill/modelOffer';
export const DRAFT = 'infill/draft';
export const DID_ACCEPT = 'infill/didAccept';
export const DID_REJECT = 'infill/didReject';
export const INLINE_EDIT = 'textDocument/copilotInlineEdit';
export const DID_SHOW_INLINE_EDIT = 'textDocument/didShowInlineEdit';
export const REFINED = 'infill/refined';

/** A command of the server's, which takes a suggestion's id and its document's URI. */
export const REFINE_SUGGESTION = 'infill-ls.refineSuggestion';

/** What the server is told, and tells again, where the user has left what was previewed. */
export const DISCARDED = 'discarded in the preview';

/** How the model is. `off` is there when a document was asked about: why it gets no fills. */
export interface StatusReport {
  state: string;
  detail: string;
  /** 0 to 1 while loading. */
  progress: number;
  model?: string | null;
  device?: string | null;
  clients?: number | null;
  off?: string | null;
  /** What the user should know of the model, such as that it is too slow; empty for nothing. */
  note?: string | null;
  /** The URL to which text goes, if the model is on a server. */
  server?: string | null;
  /** Why that server failed last, until it answers again. */
  serverProblem?: string | null;
  /** The model that refines, if there is one. */
  partner?: PartnerReport | null;
}

/** How the partner is. */
export interface PartnerReport {
  name: string;
  state: string;
  /** Why it cannot be asked, or failed last; empty where all is well. */
  problem: string;
}

/** The partner has written something better than the suggestion `id`, or than the fill in `range`: it is there at once. */
export type Refined = { uri: string } & ({ id: string } | { range: Range });

/** What no longer fits after a change: `text` is to stand in `range`. The command tells the server that it was taken. */
export interface InlineEdit {
  text: string;
  range: Range;
  textDocument: { uri: string; version: number };
  command: { title: string; command: string; arguments: [string, string] };
}

export interface DraftHole {
  range: Range;
  text: string;
  pieces: string[];
  /** One probability, 0 to 1, for each piece. */
  confidences: number[];
}

/** What the canvas holds after one denoising step. */
export interface Draft {
  uri: string;
  version: number;
  kind: 'inline' | 'action';
  token: string | number | null;
  step: number;
  maxSteps: number;
  holes: DraftHole[];
}

/** The answer to each command of the server that edits. */
export interface Applied {
  applied: boolean;
  reason: string | null;
}
