/** The text of the status bar. Knows no VS Code: icons are names, colours are levels. */
import type { StatusReport } from './wire';

/** The state of the server's process, as the extension sees it. `misconfigured`: a setting names none; `broken`: the extension's own is gone. */
export type Server = 'missing' | 'misconfigured' | 'installing' | 'starting' | 'running' | 'waiting' | 'gone' | 'broken' | 'stopped';

export interface Look {
  text: string;
  tooltip: string;
  level: 'plain' | 'warning' | 'error';
  /** What a click runs, if it is not the menu. */
  command?: string;
  /** Whether the menu offers to install the server. */
  installs?: boolean;
}

const NAME = 'infill';

/** The look for a running server that has reported, for the active document. */
export function lookOf(report: StatusReport): Look {
  switch (report.state) {
    case 'failed':
      return error(report.detail || 'the worker failed');
    case 'backing_off':
      return { text: `$(warning) ${NAME}`, tooltip: `${report.detail || 'the worker failed'}; it is started again soon`, level: 'warning' };
    case 'starting':
      return plain(`$(loading~spin) ${NAME}`, 'The worker is starting');
    case 'loading':
      return plain(`$(loading~spin) ${NAME} ${percent(report.progress)}`, report.detail || 'The model is loading');
  }
  if (report.off != null && report.off !== '') {
    return plain(`$(circle-slash) ${NAME}`, `Off for this file: ${report.off}`);
  }
  if (report.state === 'busy') {
    return plain(`$(sync~spin) ${NAME}`, `Filling with ${modelOf(report)}${whereOf(report)}${partnerOf(report)}${noteOf(report)}`);
  }
  if (report.serverProblem) {
    return { text: `$(warning) ${NAME}`, tooltip: `${report.serverProblem}${whereOf(report)}`, level: 'warning' };
  }
  if (report.state === 'ready') {
    return plain(`$(sparkle) ${NAME}`, `Ready: ${modelOf(report)}${whereOf(report)}${partnerOf(report)}${noteOf(report)}${silenceOf(report)}`);
  }
  return plain(`$(circle-outline) ${NAME}`, 'The worker is stopped; the next fill starts it');
}

/** The look while no server reports. `reason` says why. */
export function lookWithout(server: Server, reason: string): Look {
  switch (server) {
    case 'missing':
    case 'broken':
      return { ...error(reason), installs: true };
    case 'misconfigured':
    case 'gone': // what the extension installs would not be used: others come first
      return error(reason);
    case 'waiting':
      return { text: `$(warning) ${NAME}`, tooltip: reason, level: 'warning' };
    case 'installing':
      return plain(`$(loading~spin) ${NAME}`, 'infill-ls is being installed');
    case 'stopped':
      return plain(`$(circle-slash) ${NAME}`, 'infill-ls is stopped');
    default:
      return plain(`$(loading~spin) ${NAME}`, 'infill-ls is starting');
  }
}

/** The look during a snooze of `minutes` more; a problem is shown all the same. */
export function snoozed(look: Look, minutes: number): Look {
  if (minutes === 0 || look.level !== 'plain') {
    return look;
  }
  const tooltip = `Snoozed: no ghost text and no next edits for ${minutes} min. Click to end that.\n\n${look.tooltip}`;
  return { ...plain(`$(bell-slash) ${NAME} ${minutes} min`, tooltip), command: 'infill.endSnooze' };
}

/** Whether a report describes an unusable worker. */
export function isFailure(report: StatusReport): boolean {
  return report.state === 'failed' || report.state === 'backing_off';
}

function error(reason: string): Look {
  return { text: `$(error) ${NAME}`, tooltip: `${reason}\n\nClick for what to do.`, level: 'error' };
}

function plain(text: string, tooltip: string): Look {
  return { text, tooltip, level: 'plain' };
}

function percent(progress: number): string {
  return `${Math.round(Math.min(Math.max(progress, 0), 1) * 100)}%`;
}

function modelOf(report: StatusReport): string {
  return [report.model ?? 'the model', report.device].filter(Boolean).join(' on ');
}

function noteOf({ note }: StatusReport): string {
  return note ? `\n\n${note}` : '';
}

/** Why the last request found nothing at the cursor. */
function silenceOf({ noSuggestion }: StatusReport): string {
  return noSuggestion ? `\n\nNo suggestion here: ${noSuggestion}` : '';
}

/** Where text goes, if it leaves the worker. */
function whereOf(report: StatusReport): string {
  return report.server ? `\n\nText goes to ${report.server}` : '';
}

/** The refining model, and why it cannot refine, if so. */
function partnerOf({ partner }: StatusReport): string {
  return partner == null ? '' : `\n\nPartner: ${partner.name}, ${partner.problem || wordsOf(partner.state)}`;
}

function wordsOf(state: string): string {
  return state === 'stopped' ? 'not asked yet' : state.replaceAll('_', ' ');
}
