/** Locates the `infill-ls` command. Knows no VS Code and starts nothing. */
import * as path from 'node:path';

/** Facts about the machine and the window. Folders and files are absolute paths. */
export interface Surroundings {
  windows: boolean;
  home: string;
  /** The setting `infill.executable`; empty when not set. A workspace cannot set it. */
  setting: string;
  /** Whether the user trusts the workspace; otherwise nothing in it is run. */
  trusted: boolean;
  folders: readonly string[];
  /** The interpreter of the Python environment that is selected. */
  python: string | undefined;
  /** The variable PATH. */
  searchPath: string;
  /** The program that the extension has installed for itself. */
  own: string | undefined;
  isProgram(file: string): boolean;
}

export type Origin = 'the setting' | 'the Python environment' | "the workspace's .venv" | 'PATH' | 'a bundle' | 'the extension';

/** The command found, or a message for the user why there is none. */
export type Search = { file: string; origin: Origin } | { problem: string; badSetting: boolean };

/** The first that exists of: the setting, the selected Python environment, the workspace's `.venv`, PATH, what a bundle installed, the extension's own. */
export function findServer(around: Surroundings): Search {
  if (around.setting !== '') {
    return fromSetting(around);
  }
  for (const [origin, file] of candidates(around)) {
    if (mayRun(around, file) && around.isProgram(file)) {
      return { file, origin };
    }
  }
  return { problem: notFound(around), badSetting: false };
}

function fromSetting(around: Surroundings): Search {
  const file = around.setting.replace(/^~(?=$|[\\/])/, around.home);
  if (!paths(around).isAbsolute(file)) {
    return { problem: `infill.executable is not an absolute path: ${around.setting}`, badSetting: true };
  }
  if (!around.isProgram(file)) {
    return { problem: `infill.executable names no program: ${file}`, badSetting: true };
  }
  return { file, origin: 'the setting' };
}

function* candidates(around: Surroundings): Generator<[Origin, string]> {
  const at = paths(around);
  const name = around.windows ? 'infill-ls.exe' : 'infill-ls';
  if (around.python !== undefined) {
    yield ['the Python environment', at.join(at.dirname(around.python), name)];
  }
  for (const folder of around.folders) {
    yield ["the workspace's .venv", at.join(folder, '.venv', around.windows ? 'Scripts' : 'bin', name)];
  }
  for (const folder of around.searchPath.split(at.delimiter).filter((entry) => at.isAbsolute(entry))) {
    yield ['PATH', at.join(folder, name)];
  }
  yield ['a bundle', at.join(around.home, '.infill-ls', 'bin', name)]; // see editors/bundle/install.py
  if (around.own !== undefined) {
    yield ['the extension', around.own];
  }
}

/** Nothing inside an untrusted workspace, however it was found. */
function mayRun(around: Surroundings, file: string): boolean {
  return around.trusted || !around.folders.some((folder) => isInside(around, folder, file));
}

function isInside(around: Surroundings, folder: string, file: string): boolean {
  const at = paths(around);
  const way = at.relative(folder, file);
  return way !== '..' && !way.startsWith(`..${at.sep}`) && !at.isAbsolute(way);
}

function notFound(around: Surroundings): string {
  const isRefused = [...candidates(around)].some(([, file]) => !mayRun(around, file) && around.isProgram(file));
  return `The server of infill-ls is not installed yet.${isRefused ? ' That of this restricted workspace is not used.' : ''}`;
}

function paths(around: Surroundings): path.PlatformPath {
  return around.windows ? path.win32 : path.posix;
}
