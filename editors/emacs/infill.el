;;; infill.el --- infill-ls in Emacs 29 or newer, by eglot  -*- lexical-binding: t -*-

;; What works: fills as completions (C-M-i, or corfu and company), and code actions (M-x eglot-code-actions): fill the holes
;; of a file, a function or a selection, write a body, rework, repair.
;; What does not: ghost text and live drafts, which eglot does not have. Eglot talks to one server for each mode of a
;; project: in place of infill-ls put a program that joins servers there, if you use another for Python.

(with-eval-after-load 'eglot
  (add-to-list 'eglot-server-programs '((python-mode python-ts-mode) . ("infill-ls" "serve"))))

;;; infill.el ends here
