@echo off
rem Installs infill-ls, or removes it with --remove. See README.txt.
where py >nul 2>nul
if not errorlevel 1 goto py
where python >nul 2>nul
if not errorlevel 1 goto python
echo infill-ls: there is no Python 3 on PATH. Install the version that the bundle's name says, then run this again.
goto end
:py
py -3 "%~dp0install.py" %*
goto end
:python
python "%~dp0install.py" %*
:end
pause
