@echo off
rem Installs infill-ls, or removes it with --remove. See README.txt.
where py >nul 2>nul
if errorlevel 1 (python "%~dp0install.py" %*) else (py -3 "%~dp0install.py" %*)
pause
