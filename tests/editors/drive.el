;;; drive.el --- what the tests do in Emacs  -*- lexical-binding: t -*-

;; A line of JSON on standard output for each thing asked for: `infill-test-complete', `infill-test-fill-file',
;; `infill-test-fill-file-by-mode', `infill-test-snooze'.  `infill-test-lsp' is for a test that presses keys.

(setq native-comp-enable-subr-trampolines nil) ; lsp-mode would have one compiled, and the unpacked Emacs cannot
(require 'eglot)
(setq eglot-sync-connect 60 jsonrpc-default-request-timeout 60 eglot-confirm-server-edits nil eglot-autoshutdown t inhibit-interaction nil make-backup-files nil)

(defun infill-test-open (file)
  "Visit FILE, with its server connected and the model loaded."
  (find-file file)
  (apply #'eglot--connect (eglot--guess-contact))
  (eglot--maybe-activate-editing-mode)
  (while (not (member (plist-get (jsonrpc-request (eglot-current-server) :infill/status nil) :state) '("ready" "busy")))
    (accept-process-output nil 0.2)))

(defun infill-test-say (&rest fields)
  "Write FIELDS as one line of JSON, with the text of the buffer."
  (princ (concat (json-encode (append fields (list :text (buffer-substring-no-properties (point-min) (point-max))))) "\n")))

(defun infill-test-candidates ()
  "Completions at point: start, end, table, properties and the candidates."
  (eglot--signal-textDocument/didChange)
  (let ((found (run-hook-with-args-until-success 'completion-at-point-functions)))
    (when found
      (cons found (all-completions (buffer-substring (nth 0 found) (nth 1 found)) (nth 2 found))))))

(defun infill-test-complete (file)
  "Accept the first completion at the end of a line of FILE where there is one."
  (infill-test-open file)
  (let (offered)
    (goto-char (point-min))
    (while (and (null (cdr offered)) (re-search-forward "return $" nil t))
      (setq offered (infill-test-candidates)))
    (let* ((found (car offered)) (candidate (cadr offered)))
      (when candidate
        (delete-region (nth 0 found) (nth 1 found))
        (insert candidate)
        (funcall (plist-get (nthcdr 3 found) :exit-function) candidate 'finished))
      (infill-test-say :candidate (and candidate (substring-no-properties candidate)) :line (line-number-at-pos)))))

(defun infill-test-fill-file (file)
  "Choose the code action that fills all holes of FILE."
  (infill-test-open file)
  (let* ((actions (eglot-code-actions (point-min) (point-min) nil nil))
         (found (seq-find (lambda (action) (string-suffix-p "fillFile" (plist-get action :kind)))
                          (mapcar (lambda (action) (if (stringp (car-safe action)) (cdr action) action)) actions))))
    (when found (eglot-execute (eglot-current-server) found))
    (infill-test-say :title (plist-get found :title) :id (plist-get (eglot--TextDocumentItem) :languageId)
                     :grammar (plist-get (jsonrpc-request (eglot-current-server) :infill/status
                                                          (list :textDocument (eglot--TextDocumentIdentifier)))
                                         :grammar))))

(defun infill-test-fill-file-by-mode (file)
  "As `infill-test-fill-file', where eglot makes the language id of FILE from its mode."
  (push (cons '(js-mode js-json-mode conf-toml-mode) infill-command) eglot-server-programs)
  (infill-test-fill-file file))

(defvar lsp-enable-snippet)
(defvar lsp-inline-completion--items)
(defvar lsp-inline-completion-mode)
(defvar lsp-response-timeout)
(defvar lsp-session-file)

(defun infill-test-lsp (file)
  "Visit FILE with lsp-mode."
  (setq lsp-session-file (expand-file-name "lsp-session" (file-name-directory file)) lsp-response-timeout 60)
  (load "lsp-mode-autoloads") ; as a package manager would
  (require 'lsp-mode)
  (setq lsp-enable-snippet nil)
  (lsp-workspace-folders-add (file-name-directory file))
  (find-file file)
  (python-mode)
  (lsp))

(defun infill-test-ghost (automatic &optional dismissed)
  "The ghost text that appears at point, nil for none; it is hidden again, or DISMISSED."
  (lsp-on-change (point) (point) 0)
  (setq lsp-inline-completion--items nil)
  (if automatic (lsp-inline-completion--maybe-display (current-buffer) (point)) (lsp-inline-completion-display))
  (prog1 (mapcar (lambda (item) (lsp-get item :insertText)) lsp-inline-completion--items)
    (let ((this-command (if dismissed 'lsp-inline-completion-cancel 'ignore)))
      (lsp-inline-completion-cancel))))

(defun infill-test-snooze (file)
  "Ask for ghost text in FILE before a snooze, during it, after it, and after a dismissal."
  (infill-test-lsp file)
  (while (not lsp-inline-completion-mode) (accept-process-output nil 0.2))
  (let (before snoozed invoked after)
    (goto-char (point-min))
    (while (and (null before) (re-search-forward "return $" nil t))
      (setq before (infill-test-ghost t)))
    (infill-snooze 5)
    (setq snoozed (infill-test-ghost t) invoked (infill-test-ghost nil))
    (let ((minutes (infill-snooze-minutes-left)))
      (infill-end-snooze)
      (setq after (infill-test-ghost t t))
      (infill-test-say :before before :snoozed snoozed :invoked invoked :after after :minutes minutes
                       :dismissed (infill-test-ghost t)))))

;;; drive.el ends here
