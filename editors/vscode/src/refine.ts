/** Asks the partner, a larger model on a server, about the visible suggestion. */
import type * as vscode from 'vscode';
import { ExecuteCommandRequest, type LanguageClient } from 'vscode-languageclient/node';
import type { Inline } from './inline';
import { explain, showProgress, warn } from './say';
import { type Applied, REFINE_SUGGESTION } from './wire';

/**
 * Has the visible suggestion `id` refined: it stays, and can be accepted, until the server has a better one. Says why
 * none came, unless the user has accepted or left the suggestion meanwhile.
 */
export async function refineSuggestion(client: LanguageClient, inline: Inline, document: vscode.TextDocument, id: string): Promise<void> {
  const uri = client.code2ProtocolConverter.asUri(document.uri);
  const answer = client.sendRequest(ExecuteCommandRequest.type, { command: REFINE_SUGGESTION, arguments: [id, uri] });
  showProgress('infill-ls: asking the partner', answer);
  try {
    const applied = (await answer) as Applied | null;
    if (inline.onScreen(document) === id) {
      explain(applied);
    }
  } catch (error) {
    warn(error);
  }
}
