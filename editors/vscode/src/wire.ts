/** The messages beyond the LSP, documented in editors/README.md. */
import type { Range } from 'vscode-languageclient/node';

export const STATUS = 'infill/status';
export const STATUS_CHANGED = 'infill/didChangeStatus';
export const MODEL_OFFER = 'infill/modelOffer';
export const DRAFT = 'infill/draft';
export const DID_ACCEPT = 'infill/didAccept';
export const DID_REJECT = 'infill/didReject';
export const DID_REST = 'infill/didRest';
export const INLINE_EDIT = 'textDocument/copilotInlineEdit';
export const DID_SHOW_INLINE_EDIT = 'textDocument/didShowInlineEdit';
export const REFINED = 'infill/refined';

/** A command of the server's, which takes a suggestion's id and its document's URI. */
export const REFINE_SUGGESTION = 'infill-ls.refineSuggestion';

/** Sent to the server, and echoed, when the user has discarded a preview. */
export const DISCARDED = 'discarded in the preview';

/** The model's state. `off` is present in answers about a document: why it gets no fills. */
export interface StatusReport {
  state: string;
  detail: string;
  /** 0 to 1 while loading. */
  progress: number;
  model?: string | null;
  device?: string | null;
  clients?: number | null;
  off?: string | null;
  /** Present in answers about a place: why there can be no suggestion, and why the last request there found none. */
  noHole?: string | null;
  noSuggestion?: string | null;
  /** A message about the model for the user, such as that it is too slow; empty for nothing. */
  note?: string | null;
  /** The URL to which text goes, if the model is on a server. */
  server?: string | null;
  /** Why that server last failed, until it answers again. */
  serverProblem?: string | null;
  /** The refining model, if there is one. */
  partner?: PartnerReport | null;
}

/** The partner's state. */
export interface PartnerReport {
  name: string;
  state: string;
  /** Why it cannot be asked, or its last failure; empty if all is well. */
  problem: string;
}

/** The partner has improved the suggestion `id`, or the fill in `range`: asking for it gets an immediate answer. */
export type Refined = { uri: string; id: string };

/** A place that no longer fits after a change: `text` should replace `range`. The command reports its acceptance. */
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

/** The content of the canvas after one denoising step. */
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
