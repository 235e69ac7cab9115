/** The facts for `find_server`, from VS Code and the machine. */
import * as fs from 'node:fs';
import * as os from 'node:os';
import * as vscode from 'vscode';
import type { Surroundings } from './find_server';
import { selectedPython } from './python';

export async function surroundings(own: string | undefined): Promise<Surroundings> {
  const folders = (vscode.workspace.workspaceFolders ?? []).filter((folder) => folder.uri.scheme === 'file');
  return {
    windows: process.platform === 'win32',
    home: os.homedir(),
    setting: executable(vscode.workspace.getConfiguration('infill')).trim(),
    trusted: vscode.workspace.isTrusted,
    folders: folders.flatMap((folder) => withRealPath(folder.uri.fsPath)),
    python: vscode.workspace.isTrusted ? await selectedPython() : undefined,
    searchPath: process.env['PATH'] ?? '',
    own,
    isProgram,
  };
}

/** A folder reached through a link is listed under both of its names. */
function withRealPath(folder: string): string[] {
  try {
    return [...new Set([folder, fs.realpathSync(folder)])];
  } catch {
    return [folder];
  }
}

function isProgram(file: string): boolean {
  try {
    fs.accessSync(file, fs.constants.X_OK);
    return fs.statSync(file).isFile();
  } catch {
    return false;
  }
}

/** The setting, or its old name. Only the user's own value of that counts: a workspace must not choose a program. */
function executable(settings: vscode.WorkspaceConfiguration): string {
  return settings.get<string>('executable', '') || (settings.inspect<string>('server.path')?.globalValue ?? '');
}
