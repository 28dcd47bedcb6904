package powerloss

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
)

// Traced returns a command that runs cmd under strace, which records in trace what cmd does to
// files, for [ReadTrace]. inject, if not "", is an expression of strace that makes system calls
// fail.
func Traced(cmd *exec.Cmd, trace, inject string) *exec.Cmd {
	args := []string{"-f", "-qq", "-y", "-xx", "-s", "16777216", "-e", "signal=none", "-e", "trace=" + calls, "-o", trace}
	if inject != "" {
		args = append(args, "-e", "inject="+inject)
	}
	own := exec.Command("strace", append(append(args, cmd.Path), cmd.Args[1:]...)...)
	own.Env, own.Dir, own.Stdin = cmd.Env, cmd.Dir, cmd.Stdin
	return own
}

// calls change files and folders, or are variants of such calls that some library might use:
// ReadTrace fails on those that it does not know, so that nothing is overlooked.
const calls = "openat,creat,open,write,pwrite64,writev,pwritev,pwritev2,ftruncate,truncate,fallocate,fsync,fdatasync,sync_file_range,syncfs," +
	"rename,renameat,renameat2,unlink,unlinkat,rmdir,mkdir,mkdirat,link,linkat,symlinkat,copy_file_range,sendfile"

// ReadTrace reads what strace wrote. Notes are the lines that the program wrote to its standard
// output. What does not concern root is left out.
func ReadTrace(trace, root string) ([]Entry, error) {
	f, err := os.Open(trace)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	r := tracer{root: filepath.Clean(root), begun: map[string]string{}, files: map[string]*disk.File{}, at: map[string]int64{}, dirs: map[string]bool{filepath.Clean(root): true}}
	in := bufio.NewReaderSize(f, 1<<20)
	for n := 1; ; n++ {
		line, err := in.ReadString('\n')
		if err == io.EOF { // what was being written when the program was killed
			return r.entries, nil
		}
		if err == nil {
			err = r.line(strings.TrimSuffix(line, "\n"))
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", trace, n, err)
		}
	}
}

type tracer struct {
	root    string
	begun   map[string]string // calls that have not returned, by thread
	files   map[string]*disk.File
	at      map[string]int64 // the offset of the next write that names none; a file is open once
	dirs    map[string]bool
	entries []Entry
}

const (
	unfinished = " <unfinished ...>"
	resumed    = " resumed>"
	detached   = " <detached ...>" // the thread died in the middle of the line
)

// line processes a line. A call counts once it has returned.
func (r *tracer) line(line string) error {
	thread, text, ok := strings.Cut(line, " ")
	text = strings.TrimLeft(text, " ")
	if begin, cut := strings.CutSuffix(text, unfinished); cut {
		r.begun[thread] = begin
		return nil
	}
	if strings.HasSuffix(text, detached) { // as below, of a call that may have no name and no arguments: "???("
		delete(r.begun, thread)
		return nil
	}
	if strings.HasPrefix(text, "<... ") {
		_, end, found := strings.Cut(text, resumed)
		if !found {
			return fmt.Errorf("%.200q", line)
		}
		text = r.begun[thread] + end
		delete(r.begun, thread)
	}
	if !ok || strings.HasPrefix(text, "+++") || strings.HasPrefix(text, "---") {
		return nil
	}
	at := strings.LastIndex(text, " = ")
	name, args, found := strings.Cut(text, "(")
	if !found || at < 0 {
		return fmt.Errorf("%.200q", line)
	}
	result := text[at+3:]
	if strings.HasPrefix(result, "?") { // it was killed in the middle: it may have been done
		return nil
	}
	args = strings.TrimSuffix(strings.TrimRight(strings.TrimSuffix(args, text[at:]), " "), ")")
	return r.call(name, args, result)
}

var (
	quoted = regexp.MustCompile(`"((?:\\x[0-9a-f]{2})*)"`)
	fdPath = regexp.MustCompile(`^(\d+)<([^>]*)>`)
	digits = regexp.MustCompile(`(-?\d+)$`)
)

func unescape(hex string) (string, error) {
	if !strings.HasPrefix(hex, `\x`) {
		return hex, nil
	}
	return strconv.Unquote(`"` + hex + `"`)
}

// stringsOf returns the strings among the arguments.
func stringsOf(args string) (all []string, err error) {
	for _, m := range quoted.FindAllStringSubmatch(args, -1) {
		text, err := unescape(m[1])
		if err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, nil
}

func (r *tracer) inside(path string) bool {
	return strings.HasPrefix(path, r.root+"/") || path == r.root
}

func (r *tracer) call(name, args, result string) error {
	var failed error
	if strings.HasPrefix(result, "-1") {
		failed = syscall.EIO // whichever it was
	}
	all, err := stringsOf(args)
	if err != nil {
		return err
	}
	fd, path := "", ""
	if m := fdPath.FindStringSubmatch(args); m != nil {
		fd = m[1]
		if path, err = unescape(m[2]); err != nil {
			return err
		}
	}
	if fd == "1" && name == "write" && failed == nil {
		for line := range strings.Lines(all[0]) {
			r.entries = append(r.entries, Entry{Note: strings.TrimSuffix(line, "\n")})
		}
		return nil
	}
	if !r.inside(path) && !(len(all) > 0 && r.inside(all[0])) {
		return nil
	}
	op := disk.Op{Label: name, Path: path, File: r.files[path]}
	switch name {
	case "open", "openat":
		op.Path = all[0]
		if failed != nil || !strings.Contains(args, "O_CREAT") && !strings.Contains(args, "O_TRUNC") || strings.Contains(args, "O_DIRECTORY") {
			return nil
		}
		r.at[op.Path] = 0
		if r.files[op.Path] == nil {
			r.files[op.Path] = new(disk.File)
		}
		op.Kind, op.File = disk.OpOpen, r.files[op.Path]
		if strings.Contains(args, "O_TRUNC") {
			op.Flag = os.O_TRUNC
		}
	case "write", "pwrite64":
		if failed != nil {
			return nil // part of it may have been done, but then SQLite and Go write the rest
		}
		n, err := strconv.Atoi(strings.Fields(result)[0])
		if err != nil {
			return err
		}
		op.Kind, op.Data = disk.OpWrite, []byte(all[0][:n])
		if name == "write" {
			op.Off = r.at[path]
			r.at[path] += int64(n)
		} else if op.Off, err = strconv.ParseInt(digits.FindString(args), 10, 64); err != nil {
			return err
		}
	case "ftruncate":
		op.Kind = disk.OpTruncate
		if op.Off, err = strconv.ParseInt(digits.FindString(args), 10, 64); err != nil {
			return err
		}
	case "fsync", "fdatasync":
		op.Kind = disk.OpSync
		if r.dirs[path] {
			op.Kind = disk.OpSyncDir
		}
	case "mkdir", "mkdirat":
		op.Kind, op.Path = disk.OpMkdir, all[0]
		if failed == nil {
			r.dirs[op.Path] = true
		}
	case "rename", "renameat", "renameat2":
		op.Kind, op.From, op.Path = disk.OpRename, all[0], all[1]
		if failed == nil {
			r.files[op.Path] = r.files[op.From]
			delete(r.files, op.From)
		}
	case "unlink", "unlinkat":
		op.Kind, op.Path = disk.OpRemove, all[0]
		if failed == nil {
			delete(r.files, op.Path)
		}
	default:
		return fmt.Errorf("%s: a call that is not known here: %.200s", name, args)
	}
	r.entries = append(r.entries, Entry{Op: op, Done: failed == nil, Err: failed})
	return nil
}
