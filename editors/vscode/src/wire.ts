/** The messages beyond the LSP, as editors/README.md has them. */
import type { Range } from 'vscode-languageclient/node';

export const STATUS = 'infill/status';
export const STATUS_CHANGED = 'infill/didChangeStatus';
export const MODEL_OFFER = 'infill/modelOffer';
export const DRAFT = 'infill/draft';
export const DID_ACCEPT = 'infill/didAccept';
export const DID_REJECT = 'infill/didReject';

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
  /** The URL to which text goes, if the model is on a server. */
  server?: string | null;
  /** Why that server failed last, until it answers again. */
  serverProblem?: string | null;
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
