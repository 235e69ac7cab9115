--- `:Infill install`: puts the server into an environment of the plugin's own, from the checkout that the plugin is in.

local M = {}

local WINDOWS = vim.fn.has('win32') == 1
local BIN, EXE = WINDOWS and 'Scripts' or 'bin', WINDOWS and '.exe' or ''
local PYTHONS = WINDOWS and { { 'py', '-3.13' }, { 'py', '-3.12' }, { 'py', '-3.11' }, { 'py', '-3.14' }, { 'python' } }
  or { { 'python3.13' }, { 'python3.12' }, { 'python3.11' }, { 'python3.14' }, { 'python3' } }
local FITS = 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 15))'
--- Programs run in the user's home: a project may hold a venv.py, or settings for uv.
local HOME = vim.uv.os_homedir()
--- Variables that would lead pip or Python to another environment; an empty one counts as unset. uv takes pip's index.
local ENV = { PIP_TARGET = '', PIP_PREFIX = '', PIP_ROOT = '', PIP_USER = '', PYTHONPATH = '', VIRTUAL_ENV = '' }
ENV.UV_DEFAULT_INDEX = vim.env.UV_DEFAULT_INDEX or vim.env.UV_INDEX_URL or vim.env.PIP_INDEX_URL

local BUNDLED = '~/.infill-ls/bin/infill-ls' .. EXE
local CANCELLED = 'it was cancelled'
local NO_PYTHON = 'there is no Python 3.11 to 3.14 with its module venv (Debian and Ubuntu: python3-venv) on PATH; '
  .. 'install it, then run `:Infill install` again'
local NO_INDEX = 'the package index cannot be reached. Behind a proxy, set HTTPS_PROXY; with an index of your own, '
  .. 'PIP_INDEX_URL. Then start Neovim again. Without internet, install a bundle: editors/bundle/README.md'
local DISK_FULL = 'the disk is full; make room (1.3 GB, with CUDA 4.8 GB), then run `:Infill install` again'

--- The program that runs now; nil when nothing is being installed.
---@type vim.SystemObj?
local running = nil
local cancelled = false

local function notify(message, level)
  require('infill').notify(message, level)
end

--- On Windows not in AppData, where the Store's Python writes elsewhere.
local function environment()
  return WINDOWS and vim.fs.normalize('~/.infill-ls-nvim') or vim.fs.joinpath(vim.fn.stdpath('data'), 'infill-ls')
end

--- The server that a bundle installed (editors/bundle/install.py), or `:Infill install`; nil if there is none.
---@return string?
function M.program()
  local bundled = vim.fs.normalize(BUNDLED)
  if vim.fn.executable(bundled) == 1 then
    return bundled
  end
  local file = vim.fs.joinpath(environment(), BIN, 'infill-ls' .. EXE)
  return vim.uv.fs_stat(vim.fs.joinpath(environment(), 'complete')) and vim.fn.executable(file) == 1 and file or nil
end

--- How to repair a server that is there and does not start.
---@param program string
---@return string
function M.repair(program)
  local is_bundled = vim.fs.normalize(program) == vim.fs.normalize(BUNDLED)
  return 'its Python may be gone; ' .. (is_bundled and "run the bundle's installer again" or 'run :Infill install')
end

--- The checkout that this file is in.
---@return string?
local function checkout()
  local here = debug.getinfo(1, 'S').source:sub(2)
  local root = vim.fs.root(here, 'pyproject.toml')
  return root and vim.uv.fs_stat(vim.fs.joinpath(root, 'lsp_server')) and root or nil
end

--- The words that start it.
---@return string[]?
local function find_python()
  return vim.iter(PYTHONS):find(function(words)
    local test = vim.list_extend({ unpack(words) }, { '-c', FITS })
    return vim.fn.executable(words[1]) == 1 and vim.system(test, { cwd = HOME, env = ENV }):wait().code == 0
  end)
end

--- Why a program failed, by its output, and what to do.
---@param name string
---@param output string
---@return string
local function failure(name, output)
  local function says(signs)
    return vim.iter(signs):any(function(sign)
      return output:lower():find(sign, 1, true) ~= nil
    end)
  end
  if says({ 'no space left on device', 'quota exceeded', 'not enough space on the disk' }) then
    return DISK_FULL
  elseif says({ 'connection broken by', 'error sending request', 'confirming the ssl' }) then
    return NO_INDEX
  end
  return ('%s failed: %s'):format(name, output:match('([^\r\n]+)%s*$') or '')
end

--- A line of a program's output, for a user: what pip says of its longest step is a list of packages.
---@param line string
---@return string
local function plain(line)
  local unpacks = { '^Installing collected', '^%s*Attempting uninst', '^%s*Found exist', '^%s*Uninstalling', '^%s*Successfully uninst' }
  for _, sign in ipairs(unpacks) do
    if line:find(sign) then
      return 'unpacking the packages'
    end
  end
  return line:find('Retrying (Retry', 1, true) and 'the package index does not answer; trying again' or line
end

--- Run a program, showing its last line of output; raises why it failed. Runs in a coroutine.
---@param words string[]
local function run(words)
  local here, output, last = coroutine.running(), '', ''
  local function on_output(_, data)
    output = output .. (data or '')
    last = data and data:match('([^\r\n]+)%s*$') or last
    vim.schedule(function()
      vim.api.nvim_echo({ { 'infill: ' .. plain(last):sub(1, math.max(vim.o.columns - 20, 20)) } }, false, {})
    end)
  end
  local options = { stdout = on_output, stderr = on_output, cwd = HOME, env = ENV, detach = true }
  running = vim.system(words, options, vim.schedule_wrap(function(done)
    running = nil
    assert(coroutine.resume(here, done))
  end))
  local done = coroutine.yield() ---@type vim.SystemCompleted
  if cancelled then
    error(CANCELLED, 0)
  elseif done.code ~= 0 or done.signal ~= 0 then
    error(failure(vim.fs.basename(words[1]), output), 0)
  end
end

--- Whether uv could install it. It chooses the torch for this machine's GPU, or the small one without CUDA.
---@param python string
---@param root string
---@return boolean
local function with_uv(python, root)
  local uv, done, problem = 'uv', true, nil
  if vim.fn.executable(uv) == 0 then
    uv = vim.fs.joinpath(vim.fs.dirname(python), uv .. EXE)
    done, problem = pcall(run, { python, '-m', 'pip', 'install', '--disable-pip-version-check', 'uv' })
  end
  if done then
    local words = { uv, 'pip', 'install', '--python', python, '--torch-backend', 'auto', root }
    done, problem = pcall(run, words)
  end
  if problem == CANCELLED then
    error(problem, 0)
  end
  return done
end

---@param root string
---@param base string[] what starts a Python
local function install(root, base)
  local python = vim.fs.joinpath(environment(), BIN, 'python' .. EXE)
  vim.fn.delete(environment(), 'rf')
  run(vim.list_extend({ unpack(base) }, { '-m', 'venv', environment() }))
  if not with_uv(python, root) then
    run({ python, '-m', 'pip', 'install', '--disable-pip-version-check', '--progress-bar', 'off', root })
  end
  vim.fn.writefile({}, vim.fs.joinpath(environment(), 'complete'))
end

--- Install the server, or install it again, and start it.
---@param start fun() called once it is there
function M.run(start)
  local root, python = checkout(), find_python()
  if running then
    return notify('infill-ls is being installed; `:Infill cancel` stops it')
  elseif not root then
    return notify('there is no checkout of infill-ls around this plugin to install from; put infill-ls on PATH, or install a bundle')
  elseif not python then
    return notify('infill-ls was not installed: ' .. NO_PYTHON)
  end
  notify('installing 1.3 GB takes minutes; :Infill cancel stops it', vim.log.levels.INFO)
  cancelled = false
  coroutine.wrap(function()
    local done, problem = pcall(install, root, python)
    if done then
      notify(vim.fn.fnamemodify(M.program() or 'infill-ls', ':~') .. ' is installed', vim.log.levels.INFO)
      start()
    else
      vim.fn.delete(environment(), 'rf')
      notify('infill-ls was not installed: ' .. problem)
    end
  end)()
end

--- Stop an installation that is in progress.
function M.cancel()
  if running then
    cancelled = true
    if WINDOWS then
      vim.system({ 'taskkill', '/pid', tostring(running.pid), '/t', '/f' })
    else
      vim.uv.kill(-running.pid, 'sigterm') -- with its children
    end
  end
end

return M
