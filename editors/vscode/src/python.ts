/** The Python environment selected in VS Code, if Microsoft's Python extension is installed. */
import * as vscode from 'vscode';

const PYTHON = 'ms-python.python';

/** The few members of that extension's API used here. */
interface PythonApi {
  environments: {
    getActiveEnvironmentPath(resource?: vscode.Uri): { path: string };
    resolveEnvironment(at: { path: string }): Promise<{ executable: { uri: vscode.Uri | undefined } } | undefined>;
    onDidChangeActiveEnvironmentPath: vscode.Event<unknown>;
  };
}

/** The selected interpreter's file; undefined when there is no such extension, or it does not say in time. */
export async function selectedPython(limitMs = 5_000): Promise<string | undefined> {
  const late = new Promise<undefined>((resolve) => setTimeout(() => resolve(undefined), limitMs));
  return Promise.race([late, ask().catch(() => undefined)]);
}

/** Calls `changed` whenever another environment is selected. */
export async function watchPython(changed: () => void): Promise<vscode.Disposable | undefined> {
  const api = await pythonApi().catch(() => undefined);
  return api?.environments.onDidChangeActiveEnvironmentPath(changed);
}

async function ask(): Promise<string | undefined> {
  const api = await pythonApi();
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri;
  const at = api?.environments.getActiveEnvironmentPath(folder);
  const found = at && (await api?.environments.resolveEnvironment(at));
  return found?.executable.uri?.fsPath;
}

async function pythonApi(): Promise<PythonApi | undefined> {
  const extension = vscode.extensions.getExtension<PythonApi>(PYTHON);
  return extension?.activate();
}
