// Package script has the languages of job code: Starlark, with the names that docs/jobcode.md
// describes, and Python. It checks code, and says how much code may do, but runs none. Package
// child runs it, for the engine in daemon/internal/download/scriptengine.
package script

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// The languages of job code.
const (
	Language = "starlark"
	Python   = download.LanguagePython // where the operator allows it
)

// LanguageOf returns the language of a file, by its name.
func LanguageOf(file string) string {
	if strings.HasSuffix(file, ".py") {
		return Python
	}
	return Language
}

// parameter is the name of the argument of a script's function.
var parameter = map[download.Script]string{download.ScriptGenerate: "run", download.ScriptDownload: "task", download.ScriptParse: "page"}

// The bounds of code, and of one attempt to run it. All sizes are in bytes.
const (
	MaxText    = 64 << 10
	MaxSteps   = 200_000_000 // of the interpreter
	MaxDepth   = 1000        // of nested calls
	MaxFetches = 100
	MaxPage    = 8 << 20  // of one fetched body
	MaxFetched = 32 << 20 // of all fetched bodies
	MaxSent    = 1 << 20  // of a body that is sent
	MaxRecords = 10_000
	MaxEmitted = 16 << 20 // of all records, as JSON
	MaxLinks   = 10_000
	MaxLines   = 100 // of log
	MaxLine    = 1 << 10
	MaxReason  = 4 << 10 // of the argument of fail
	MaxCPU     = time.Minute
)

// Names are the names that a script has besides those of the language. A parse script has no fetch.
func Names(of download.Script) []string {
	names := []string{"html", "json", "emit", "follow", "log", "fail"}
	if of != download.ScriptParse {
		names = append(names, "fetch")
	}
	return names
}

// Options say which Starlark is used: with sets, while, and recursion.
func Options() *syntax.FileOptions {
	return &syntax.FileOptions{Set: true, While: true, TopLevelControl: true, GlobalReassign: true, Recursion: true}
}

// Check says what is wrong with the code of a script, one fault per line with file, line and
// column. It does not run the code. For Python it checks only the size; the engine can compile it.
func Check(c download.Code, of download.Script) error {
	if len(c.Text) > MaxText {
		return fmt.Errorf("%s: has %d bytes: want %d at most", c.File, len(c.Text), MaxText)
	}
	switch c.Language {
	case Language:
	case Python:
		if strings.TrimSpace(c.Text) == "" {
			return fmt.Errorf("%s: is empty: want def %s(%s): ... at its top level", c.File, of, parameter[of])
		}
		return nil
	default:
		return fmt.Errorf("%s: language %q: want %s or %s", c.File, c.Language, Language, Python)
	}
	file, err := Options().Parse(c.File, c.Text, 0)
	if err != nil {
		return faults(c.File, err)
	}
	entry := entryOf(file, string(of))
	loads := loads(c.File, file)
	if _, err := starlark.FileProgram(file, func(name string) bool { return slices.Contains(Names(of), name) }); err != nil {
		return errors.Join(loads, faults(c.File, err))
	}
	switch {
	case loads != nil:
		return loads
	case entry == nil:
		return fmt.Errorf("%s: has no function %s: want def %s(%s): ... at its top level", c.File, of, of, parameter[of])
	case len(entry.Params) != 1:
		return fault(c.File, entry.Def, fmt.Sprintf("%s has %d parameters: want one, the %s", of, len(entry.Params), parameter[of]))
	}
	return nil
}

// entryOf returns the function of a name, nil if it does not exist.
func entryOf(file *syntax.File, name string) *syntax.DefStmt {
	for _, statement := range file.Stmts {
		if def, ok := statement.(*syntax.DefStmt); ok && def.Name.Name == name {
			return def
		}
	}
	return nil
}

func loads(name string, file *syntax.File) error {
	var all []error
	syntax.Walk(file, func(n syntax.Node) bool {
		if load, ok := n.(*syntax.LoadStmt); ok {
			all = append(all, fault(name, load.Load, "load: the code of a job is one file"))
		}
		return true
	})
	return errors.Join(all...)
}

func fault(name string, at syntax.Position, text string) error {
	return fmt.Errorf("%s:%d:%d: %s", name, at.Line, at.Col, text)
}

// faults converts faults that the language's own checks found.
func faults(name string, err error) error {
	var wrong syntax.Error
	var unknown resolve.ErrorList
	switch {
	case errors.As(err, &wrong):
		return fault(name, wrong.Pos, wrong.Msg)
	case errors.As(err, &unknown):
		var all []error
		for _, e := range unknown {
			all = append(all, fault(name, e.Pos, e.Msg))
		}
		return errors.Join(all...)
	}
	return fmt.Errorf("%s: %s", name, strings.TrimPrefix(err.Error(), name+": "))
}
