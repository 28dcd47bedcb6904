package filter

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/configs/terminal"
	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/connection"
)

const (
	// digestsMark begins the first line of an export.
	digestsMark = `{"digests_format":`
	// digestsEnd begins its last line.
	digestsEnd = `{"digests":`
)

// lastLine returns the last line of an export: the number of digests, and the checksum of all that is before it.
func lastLine(digests int64, sum uint32) string {
	return fmt.Sprintf("%s%d,\"crc32c\":\"%08x\"}\n", digestsEnd, digests, sum)
}

// checksum adds bytes to the checksum of those before them.
func checksum(sum uint32, more []byte) uint32 {
	return crc32.Update(sum, crc32.MakeTable(crc32.Castagnoli), more)
}

// exportCommand writes the digests of a filter.
type exportCommand struct {
	conn   connection.Flags
	output string // file; "": the standard output
	quiet  bool
}

// NewExport makes the command export.
func NewExport() *cobra.Command {
	c := &exportCommand{}
	cmd := &cobra.Command{
		Use:   "export [flags] NAME",
		Short: "Write down what a filter has seen, as digests",
		Long: `Write the digests of all items that a filter has seen, one a line, to take them to
another daemon or store: "urifilter import" reads them, and makes the filter there if need
be. Only filters of the kinds exact and timing in the embedded store keep digests; items
themselves are kept by none. Each line has 32 hexadecimal digits and, for items that
expire, a blank and when, in milliseconds since 1970. Reserved items are left out, and
what is added meanwhile may be missing.

The first line describes the filter, and has the secret by which its items are hashed:
who knows it can make up items that are taken for seen. So keep the export as you keep a
password. It needs a token of the scope admin, where tokens are in use.

After a failure the same command with the same --output goes on where it was.`,
		Example: `  urifilter export --output jobs.digests jobs
  urifilter export jobs | zstd > jobs.digests.zst

  # at the other daemon
  urifilter import --server http://10.0.0.7:8000 --filter jobs jobs.digests.zst`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd, args[0]) },
	}
	c.conn.Register(cmd)
	cmd.Flags().StringVarP(&c.output, "output", "o", "", "`file` to write; it is only for its owner (default: the standard output)")
	cmd.Flags().BoolVarP(&c.quiet, "quiet", "q", false, "no progress and no summary")
	cmd.ValidArgsFunction = c.conn.CompleteFilter
	return cmd
}

func (c *exportCommand) run(cmd *cobra.Command, name string) (err error) {
	daemon, err := c.conn.Dial(cmd)
	if err != nil {
		return err
	}
	defer daemon.Close()
	to := &exported{w: cmd.OutOrStdout()}
	if c.output != "" {
		file, err := os.OpenFile(c.output, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		defer file.Close()
		if err = to.resume(file); err == nil {
			err = onlyForOwner(file)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", c.output, err)
		}
	}
	start, errOut := time.Now(), cmd.ErrOrStderr()
	progress := terminal.NewProgress(errOut, !terminal.Is(to.w) && !c.quiet)
	for ; to.part < client.DigestParts; to.part++ {
		lines, err := daemon.Digests(cmd.Context(), name, to.part)
		if err == nil {
			err = to.add(lines)
		}
		progress.Show("%3d %%, %s digests", to.part*100/client.DigestParts, human.Count(to.count))
		if err != nil {
			return c.broken(to, err)
		}
	}
	progress.Clear()
	if err := to.end(); err != nil {
		return c.broken(to, err)
	}
	if !c.quiet {
		fmt.Fprintf(errOut, "filter %s: %s digests in %.1fs\n", name, human.Count(to.count), time.Since(start).Seconds())
	}
	return nil
}

// onlyForOwner keeps others from reading a file that may have been there.
func onlyForOwner(file *os.File) error {
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	return file.Chmod(0o600)
}

func (c *exportCommand) broken(to *exported, err error) error {
	if c.output == "" || to.count == 0 || errors.As(err, new(*notText)) {
		return err
	}
	return fmt.Errorf("%w\n%s has %s digests; the same command goes on from there", err, c.output, human.Count(to.count))
}

// exported is what is written of an export.
type exported struct {
	w     io.Writer
	file  *os.File // nil: no file
	head  []byte   // first line, without its end; nil: not known yet
	part  int      // that comes next
	count int64
	sum   uint32 // of what is written
}

// resume makes the export go on with a file: from its last part, which may be cut off.
func (x *exported) resume(file *os.File) error {
	x.w, x.file = file, file
	in := bufio.NewReader(file)
	head, err := in.ReadBytes('\n')
	switch {
	case errors.Is(err, io.EOF) && (bytes.HasPrefix(head, []byte(digestsMark)) || strings.HasPrefix(digestsMark, string(head))): // cut off
		return x.truncate(0)
	case err != nil && !errors.Is(err, io.EOF):
		return err
	case !bytes.HasPrefix(head, []byte(digestsMark)):
		return &notText{"is there, and no export of digests", "name another file with --output, or remove this one"}
	}
	x.head = bytes.TrimSuffix(head, []byte{'\n'})
	at, sum := int64(len(head)), checksum(0, head)
	keep, before := at, int64(0) // where the last part begins, and how many digests are before it
	x.sum = sum
	for {
		line, err := in.ReadSlice('\n')
		var part [1]byte
		switch {
		case bytes.HasPrefix(line, []byte(digestsEnd)) && err == nil:
			return &notText{"is there, and whole", "name another file with --output, or remove this one"}
		case bytes.HasPrefix(line, []byte{'{'}): // its end is cut off
			x.part, x.sum = client.DigestParts, sum
			return x.truncate(at)
		case len(line) >= 2:
			if _, err := hex.Decode(part[:], line[:2]); err != nil {
				return &notText{fmt.Sprintf("byte %d: no digest", at), "remove the file to export from the beginning"}
			}
			if int(part[0]) != x.part {
				x.part, keep, before, x.sum = int(part[0]), at, x.count, sum
			}
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if err != nil {
			x.count = before
			return x.truncate(keep)
		}
		at += int64(len(line))
		sum = checksum(sum, line)
		x.count++
	}
}

func (x *exported) truncate(at int64) error {
	if err := x.file.Truncate(at); err != nil {
		return err
	}
	_, err := x.file.Seek(at, io.SeekStart)
	return err
}

// add writes a part.
func (x *exported) add(lines []byte) error {
	head, rest, ok := bytes.Cut(lines, []byte{'\n'})
	if !ok || !bytes.HasPrefix(head, []byte(digestsMark)) {
		return errors.New("the daemon has answered something else than digests")
	}
	if x.head != nil && !bytes.Equal(head, x.head) {
		return &notText{"the filter is another one than when the export began: it was cleared, or made again", "export from the beginning, into another file"}
	}
	if x.head == nil {
		x.head, rest = head, lines
		x.count-- // the head is no digest
	}
	if _, err := x.w.Write(rest); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	x.sum = checksum(x.sum, rest)
	x.count += int64(bytes.Count(rest, []byte{'\n'}))
	return nil
}

// end writes the last line, without which an export is not whole.
func (x *exported) end() error {
	if _, err := io.WriteString(x.w, lastLine(x.count, x.sum)); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	if x.file != nil {
		return x.file.Sync()
	}
	return nil
}

// digestsSource takes the digests out of an export, after its first line, the head. Builds between releases wrote no
// checksum into the last one.
func digestsSource(head []byte, in *bufio.Reader) source {
	n, sum := int64(0), checksum(0, head)
	return func() (string, error) {
		line, err := in.ReadSlice('\n')
		digest := string(bytes.TrimSuffix(line, []byte{'\n'}))
		switch {
		case bytes.HasPrefix(line, []byte(digestsEnd)) && err == nil:
			count, _, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(digest, digestsEnd), "}"), ",")
			plain := digestsEnd + strconv.FormatInt(n, 10) + "}\n"
			switch {
			case count != strconv.FormatInt(n, 10):
				return "", &notText{fmt.Sprintf("the list has %s digests, and its last line says %s", human.Count(n), digest), "what it has is imported; export again for the rest"}
			case string(line) != plain && string(line) != lastLine(n, sum):
				return "", &notText{fmt.Sprintf("the list is damaged: its checksum is %08x, and its last line says %s", sum, digest), "what it has is imported, wrong digests too, or all of them with a wrong secret: drop the filter if this import has made it, and export again"}
			}
			if _, err := in.Peek(1); err == nil {
				return "", &notText{"there is more after the last line of the export", "import exports one by one: what comes after the first is not imported"}
			}
			return "", io.EOF
		case errors.Is(err, io.EOF):
			return "", &notText{fmt.Sprintf("the list is cut off after %s digests", human.Count(n)), "what it has is imported; `urifilter export` with the same --output goes on with it"}
		case err == nil && digest == "":
			return "", errors.New("the list has an empty line")
		}
		n++
		sum = checksum(sum, line)
		return digest, err
	}
}
