;;; infill.el --- infill-ls in Emacs 29 or newer  -*- lexical-binding: t -*-

;;; Commentary:

;; With lsp-mode 10 or newer: ghost text, completions and code actions, beside the language's own server.
;; With eglot, which talks to one server per mode: completions and code actions, in place of the language's own server.
;; README.md in this folder says how to start either.

;;; Code:

(defgroup infill nil
  "Fills holes in code with models that see both sides of the hole."
  :group 'tools)

(defcustom infill-command '("infill-ls" "serve")
  "The command that starts the server."
  :type '(repeat string))

(defcustom infill-languages
  '((python-base-mode . "python") (python-mode . "python")
    (js-jsx-mode . "javascriptreact") (rjsx-mode . "javascriptreact") (js-json-mode . "json") (js-base-mode . "javascript")
    (js-mode . "javascript") (js2-mode . "javascript") (js3-mode . "javascript")
    (tsx-ts-mode . "typescriptreact") (typescript-ts-base-mode . "typescript") (typescript-mode . "typescript")
    (rust-ts-mode . "rust") (rust-mode . "rust") (rustic-mode . "rust")
    (go-ts-mode . "go") (go-mode . "go")
    (c++-ts-mode . "cpp") (c++-mode . "cpp") (c-ts-mode . "c") (c-mode . "c")
    (java-ts-mode . "java") (java-mode . "java")
    (csharp-ts-mode . "csharp") (csharp-mode . "csharp")
    (php-ts-mode . "php") (php-mode . "php")
    (ruby-base-mode . "ruby") (ruby-mode . "ruby") (enh-ruby-mode . "ruby")
    (lua-ts-mode . "lua") (lua-mode . "lua")
    (sh-base-mode . "shellscript") (sh-mode . "shellscript")
    (jsonc-mode . "jsonc") (json-ts-mode . "json") (json-mode . "json")
    (yaml-ts-mode . "yaml") (yaml-mode . "yaml")
    (toml-ts-mode . "toml") (toml-mode . "toml") (conf-toml-mode . "toml")
    (html-ts-mode . "html") (mhtml-mode . "html") (html-mode . "html") (web-mode . "html")
    (scss-mode . "scss") (less-css-mode . "less") (css-base-mode . "css") (css-mode . "css")
    (gfm-mode . "markdown") (markdown-ts-mode . "markdown") (markdown-mode . "markdown"))
  "Major modes that eglot connects to infill-ls, each with its language id.
Modes derived from one of these count, too.  Set this before eglot loads."
  :type '(alist :key-type symbol :value-type string))

;; Snooze

(defcustom infill-snooze-minutes 10
  "How long `infill-snooze' lasts without an argument."
  :type 'natnum)

(defvar infill--snoozed-until nil
  "When the snooze ends, in seconds since 1970, or nil.")

(defun infill-snooze-minutes-left ()
  "Minutes until the snooze ends, or nil if there is none."
  (let ((seconds (and infill--snoozed-until (- infill--snoozed-until (float-time)))))
    (and seconds (> seconds 0) (ceiling seconds 60))))

;;;###autoload
(defun infill-snooze (minutes)
  "Show no ghost text by itself for MINUTES, and do not ask the server for any.
\\[lsp-inline-completion-display] still shows it.  The mode line tells the minutes left."
  (interactive (list (if current-prefix-arg
                         (prefix-numeric-value current-prefix-arg)
                       (read-number "Snooze infill for how many minutes? " infill-snooze-minutes))))
  (unless (> minutes 0)
    (user-error "Snooze for more than 0 minutes, or end it with M-x infill-end-snooze"))
  (setq infill--snoozed-until (+ (float-time) (* 60 minutes)))
  (force-mode-line-update t)
  (message "No ghost text until %s; M-x infill-end-snooze ends that" (format-time-string "%H:%M" infill--snoozed-until)))

;;;###autoload
(defun infill-end-snooze ()
  "Show ghost text again."
  (interactive)
  (setq infill--snoozed-until nil)
  (force-mode-line-update t))

(add-to-list 'mode-line-misc-info
             '(:eval (let ((minutes (infill-snooze-minutes-left))) (if minutes (format " infill: snoozed %d min " minutes) ""))))

;; eglot

(defvar eglot-server-programs)

(with-eval-after-load 'eglot
  (add-to-list 'eglot-server-programs
               (cons (mapcar (lambda (language) (list (car language) :language-id (cdr language))) infill-languages)
                     infill-command)))

;; lsp-mode

(defvar lsp--cur-workspace)
(defvar lsp-inline-completion--current)
(defvar lsp-inline-completion--items)
(defvar lsp-inline-completion-active-map)
(defvar lsp-inline-completion-cancelled-hook)
(defvar lsp-inline-completion-idle-delay)
(defvar lsp-inline-completion-inhibit-predicates)
(defvar lsp-language-id-configuration)
(declare-function lsp--text-document-identifier "ext:lsp-mode")
(declare-function lsp-find-workspace "ext:lsp-mode")
(declare-function lsp-get "ext:lsp-protocol")
(declare-function lsp-notify "ext:lsp-mode")
(declare-function lsp-register-client "ext:lsp-mode")
(declare-function lsp-request-async "ext:lsp-mode")
(declare-function lsp-stdio-connection "ext:lsp-mode")
(declare-function make-lsp-client "ext:lsp-mode")

(defun infill--serves-p (_file mode)
  "Whether a buffer in MODE is for infill-ls, when lsp-mode looks for servers."
  (apply #'provided-mode-derived-p mode 'prog-mode 'conf-mode (mapcar #'car infill-languages)))

(defun infill--execute (command)
  "Have infill-ls alone execute COMMAND, not the other servers of the buffer."
  (let ((lsp--cur-workspace (lsp-find-workspace 'infill-ls buffer-file-name)))
    (lsp-request-async "workspace/executeCommand"
                       (list :command (lsp-get command :command) :arguments (lsp-get command :arguments))
                       #'ignore :mode 'detached)))

(defun infill--on-cancel ()
  "Tell the server of ghost text that the user dismissed by a key for that."
  (when (eq this-command 'lsp-inline-completion-cancel)
    (let* ((item (nth lsp-inline-completion--current lsp-inline-completion--items))
           (command (and item (lsp-get item :command)))
           (lsp--cur-workspace (lsp-find-workspace 'infill-ls buffer-file-name)))
      (when (and command lsp--cur-workspace (equal (lsp-get command :command) "infill-ls.didAccept"))
        (lsp-notify "infill/didReject"
                    (list :textDocument (lsp--text-document-identifier) :id (elt (lsp-get command :arguments) 0)))))))

(with-eval-after-load 'lsp-mode
  (dolist (language infill-languages)
    (unless (assq (car language) lsp-language-id-configuration)
      (add-to-list 'lsp-language-id-configuration language t)))
  (let ((handlers (make-hash-table :test 'equal)))
    (dolist (command '("infill-ls.didAccept" "infill-ls.pullModel"))
      (puthash command #'infill--execute handlers))
    (lsp-register-client
     (make-lsp-client :new-connection (lsp-stdio-connection (lambda () infill-command))
                      :activation-fn #'infill--serves-p
                      :server-id 'infill-ls
                      :add-on? t
                      :action-handlers handlers)))
  (require 'lsp-inline-completion nil t)) ; not in lsp-mode 9: completions and code actions alone

(with-eval-after-load 'lsp-inline-completion
  (when (eql lsp-inline-completion-idle-delay 2) ; the default; the server waits for a pause in typing itself
    (setq lsp-inline-completion-idle-delay 0.1))
  (dolist (key '("TAB" "<tab>"))
    (define-key lsp-inline-completion-active-map (kbd key) 'lsp-inline-completion-accept))
  (add-to-list 'lsp-inline-completion-inhibit-predicates #'infill-snooze-minutes-left)
  (add-hook 'lsp-inline-completion-cancelled-hook #'infill--on-cancel))

(provide 'infill)
;;; infill.el ends here
