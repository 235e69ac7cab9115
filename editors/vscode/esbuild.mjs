// Bundles the extension into dist/extension.cjs, with the licences of what goes in beside it; with --tests, each unit test
// into dist/test/.
import { build } from 'esbuild';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';

const common = { bundle: true, platform: 'node', format: 'cjs', target: 'node20', logLevel: 'warning' };

/** The licence of every package of which something was bundled, as one text. */
function notices(inputs) {
  const folders = Object.keys(inputs).map((file) => /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(file)?.[1]);
  return [...new Set(folders.filter(Boolean))].sort().map((folder) => {
    const { name, version, license } = JSON.parse(readFileSync(`${folder}/package.json`, 'utf8'));
    const file = readdirSync(folder).find((entry) => /^licen[sc]e/i.test(entry));
    if (file === undefined) {
      throw new Error(`${folder} has no licence file`);
    }
    return `${name} ${version} (${license})\n\n${readFileSync(`${folder}/${file}`, 'utf8').trim()}\n`;
  }).join(`\n${'-'.repeat(80)}\n\n`);
}

if (process.argv.includes('--tests')) {
  const tests = readdirSync('test').filter((name) => name.endsWith('.test.ts'));
  await build({
    ...common,
    entryPoints: tests.map((name) => `test/${name}`),
    outdir: 'dist/test',
    outExtension: { '.js': '.cjs' },
    sourcemap: 'inline',
  });
} else {
  const { metafile } = await build({
    ...common,
    entryPoints: ['src/extension.ts'],
    outfile: 'dist/extension.cjs',
    external: ['vscode'],
    minify: true,
    metafile: true,
  });
  writeFileSync('dist/THIRD_PARTY_NOTICES.txt', notices(metafile.inputs));
}
