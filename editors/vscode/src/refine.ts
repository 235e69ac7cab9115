/** Asking the partner, a larger model on a server: about the suggestion on screen, a selection or a fill just made. */
import * as vscode from 'vscode';
import { ExecuteCommandRequest, type LanguageClient, type Range } from 'vscode-languageclient/node';
import type { Fills } from './fills';
import type { Inline } from './inline';
import { explain, showProgress, warn } from './say';
import { Standing } from './standing';
import { type Applied, REFINE_SUGGESTION } from './wire';

const SHOW = 'Show It';

/**
 * The partner has something better than a fill just made. The user decides whether to look at it: a while later, so nothing
 * is done if the file is another one by then. The server is told which version is meant, and looks again.
 */
export async function offerRefined(client: LanguageClient, fills: Fills, { uri, range }: { uri: string; range: Range }): Promise<void> {
  const name = vscode.Uri.parse(uri).toString();
  const standing = new Standing(vscode.workspace.textDocuments.find((document) => document.uri.toString() === name));
  try {
    const offer = `The partner has something better for line ${range.start.line + 1}.`;
    if ((await vscode.window.showInformationMessage(offer, SHOW)) !== SHOW) {
      return;
    }
    const document = standing.now();
    if (typeof document === 'string') {
      warn(`the file has ${document === 'changed' ? 'changed' : 'been closed'} since; put the cursor into the fill and press Alt+I P`);
      return;
    }
    const { version } = document;
    const editor = await vscode.window.showTextDocument(document);
    await fills.run(client, editor, { command: 'infill-ls.refine', range, version });
  } catch (error) {
    warn(error);
  }
}

/**
 * Has the suggestion `id` on screen refined: it stays where it is, and can be taken, until the server says that there is
 * a better one. Says why none came, unless the user has taken or left the suggestion meanwhile.
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
