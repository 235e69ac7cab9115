@echo off
rem Installs infill-ls, or removes it with --remove. See README.txt.
setlocal
set "python="
call :try py -3
if not defined python call :try python
if not defined python goto none
%python% "%~dp0install.py" %*
set "status=%errorlevel%"
goto end
:none
echo infill-ls: there is no Python 3 on PATH. Install the version that the bundle's name says, then run this again.
set "status=1"
:end
pause
exit /b %status%

:try
%* -c "import sys; sys.exit(sys.version_info < (3, 6))" >nul 2>nul
if not errorlevel 1 set "python=%*"
