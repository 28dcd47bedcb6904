package remote

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/pkg/sftp"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/remote/login"
)

// stageName begins the names of files that are on their way to a host.
const stageName = ".urifilter-upload-"

// Upload puts a file in place as host.Host describes. It goes by SFTP to a file of ours,
// beside the target if the login is root, otherwise in a folder of the login; then root
// checks, copies and renames it. What an interrupted upload has left behind is removed
// when nothing has been written to it for two minutes.
func (c *Conn) Upload(ctx context.Context, u host.Upload) error {
	err := c.upload(ctx, u)
	var gone *host.ConnectionError
	if err == nil || ctx.Err() != nil || errors.As(err, &gone) {
		return err
	}
	return fmt.Errorf("upload %s: %w", u.Path, err)
}

func (c *Conn) upload(ctx context.Context, u host.Upload) error {
	if !path.IsAbs(u.Path) || strings.HasSuffix(u.Path, "/") {
		return fmt.Errorf("want an absolute path of a file")
	}
	as, err := c.asRoot(ctx)
	if err != nil {
		return err
	}
	sum := sha256.New()
	if n, err := io.Copy(sum, io.NewSectionReader(u.Source, 0, u.Size)); err != nil {
		return err
	} else if n != u.Size {
		return fmt.Errorf("its source has %d bytes, and %d were promised", n, u.Size)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); u.SHA256 != "" && got != u.SHA256 {
		return fmt.Errorf("its source has changed since it was checked: its SHA-256 was %s and is %s\nhint: another build, perhaps: the same command again", u.SHA256, got)
	}
	s := stage{Conn: c, u: u, sum: hex.EncodeToString(sum.Sum(nil)), direct: !as.sudo}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	err = s.send(ctx)
	if err == nil {
		err = s.place(ctx)
	}
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	// Also after an interruption: the host must be left as it was.
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.dialer.killWait)
	defer cancel()
	_, _ = c.exec(clean, identity{}, host.Command{Script: "rm -f " + host.Quote(s.file)}, false) // or the next upload does it
	return err
}

// stage is an upload under way.
type stage struct {
	*Conn
	u      host.Upload
	sum    string
	direct bool // the login is root, and the stage is beside the target
	file   string
}

// prepare makes room for the file and checks that there is enough.
func (s *stage) prepare(ctx context.Context) error {
	dir, base := path.Split(s.u.Path)
	folder := dir
	if !s.direct {
		folder = path.Join(s.home, ".cache", "urifilter-upload") + "/"
	}
	s.file = folder + stageName + base + "-" + newWord()[len("urifilter-"):]
	script := fmt.Sprintf(`umask 077
d=%s t=%s
[ -d "$t" ] || { echo "the folder $t does not exist" >&2; exit 1; }
[ %d = 1 ] || mkdir -p "$d" || exit
find "$d" -maxdepth 1 -name %s -mmin +2 -exec rm -f {} + || exit
for f in "$d" "$t"; do LC_ALL=C df -Pk "$f" | tail -n 1; done`,
		host.Quote(strings.TrimSuffix(folder, "/")), host.Quote(cmp.Or(strings.TrimSuffix(dir, "/"), "/")), number(s.direct), host.Quote(globQuote(stageName+base)+"-*"))
	out, err := s.Run(ctx, host.Command{Script: script})
	if err != nil {
		var bad *host.CommandError
		if errors.As(err, &bad) {
			return errors.New(host.LastLine(bad.Output.Stderr))
		}
		return err
	}
	for line := range strings.Lines(out.Stdout) {
		if err := room(line, s.u.Size); err != nil {
			return err
		}
	}
	return nil
}

func number(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// globQuote turns a name into a pattern that matches the name alone.
func globQuote(name string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(name)
}

// room returns an error if a line of df has fewer bytes left; a line that says nothing passes.
func room(line string, size int64) error {
	fields := strings.Fields(line)
	if len(fields) < 6 {
		return nil
	}
	free, err := strconv.ParseInt(fields[3], 10, 64)
	if err != nil || free<<10 >= size {
		return nil
	}
	return &fullError{system: strings.Join(fields[5:], " "), device: fields[0], free: free << 10, need: size}
}

// fullError is a file system without room.
type fullError struct {
	system, device string
	free, need     int64
}

func (e *fullError) Error() string {
	return fmt.Sprintf("no space on %s (%s): %s are free, and %s are needed\nhint: free space there; `go tool mage urifilter:status` lists its releases",
		e.system, e.device, mebibytes(e.free), mebibytes(e.need))
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// send copies the bytes to the stage.
func (s *stage) send(ctx context.Context) error {
	err := s.sendSFTP(ctx)
	if errors.Is(err, errNoSFTP) {
		err = s.sendShell(ctx)
	}
	var gone *host.ConnectionError
	if err == nil || ctx.Err() != nil || errors.As(err, &gone) {
		return err
	}
	// SFTP has no error code for a full disk.
	out, dfErr := s.Run(ctx, host.Command{Script: "df -Pk " + host.Quote(path.Dir(s.file)) + " | tail -n 1"})
	if dfErr == nil {
		if full := room(out.Stdout, 64<<10); full != nil {
			return fmt.Errorf("%w (%w)", full, err)
		}
	}
	return err
}

// errNoSFTP means that a host has no SFTP.
var errNoSFTP = errors.New("no SFTP")

func (s *stage) sendSFTP(ctx context.Context) error {
	session, give, err := s.session(ctx, s.sessions)
	if err != nil {
		return err
	}
	defer give()
	defer session.Close()
	// Nothing in package sftp accepts a context: the end of its session ends it.
	defer context.AfterFunc(ctx, func() { session.Close() })()
	out, err := session.StdoutPipe()
	if err != nil {
		return err
	}
	in, err := session.StdinPipe()
	if err != nil {
		return err
	}
	if err := session.RequestSubsystem("sftp"); err != nil {
		return s.sftpError(ctx, errors.Join(errNoSFTP, err))
	}
	client, err := sftp.NewClientPipe(out, in, sftp.UseConcurrentWrites(true), sftp.MaxConcurrentRequestsPerFile(underWay(s.link.Reached)))
	if err != nil {
		return s.sftpError(ctx, errors.Join(errNoSFTP, err))
	}
	defer client.Close()
	f, err := client.OpenFile(s.file, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return s.sftpError(ctx, err)
	}
	_, err = f.ReadFrom(&progress{r: io.NewSectionReader(s.u.Source, 0, s.u.Size), u: s.u})
	if err = errors.Join(err, f.Close()); err != nil {
		return s.sftpError(ctx, err)
	}
	return nil
}

// underWay returns how many writes of 32 KiB are sent before the first is answered: what a line of 40 MB/s holds.
// sshd copies all that waits for its file with each further write, so 64, the most, cost a near host four times the
// processor time of 16 (2.1 s and 0.5 s for 100 MiB).
func underWay(roundTrip time.Duration) int {
	return min(16+int(roundTrip/time.Millisecond), 64)
}

// sftpError distinguishes a dead connection from a refusal.
func (s *stage) sftpError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case !s.link.Alive() || errors.Is(err, sftp.ErrSSHFxConnectionLost) || !errors.Is(err, errNoSFTP) && login.IsHangUp(err):
		return s.lost(errors.Join(io.ErrUnexpectedEOF, err))
	}
	return err
}

// sendShell is for hosts whose sshd has no SFTP.
func (s *stage) sendShell(ctx context.Context) error {
	script := fmt.Sprintf("umask 077; set -C; cat >%s", host.Quote(s.file))
	_, err := s.Run(ctx, host.Command{Script: script, Stdin: &progress{r: io.NewSectionReader(s.u.Source, 0, s.u.Size), u: s.u}})
	return err
}

// progress reports how much has been read. Its Size makes SFTP write concurrently.
type progress struct {
	r    io.Reader
	u    host.Upload
	sent int64
}

func (p *progress) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	p.sent += int64(n)
	if p.u.Progress != nil && n > 0 {
		p.u.Progress(p.sent, p.u.Size)
	}
	return n, err
}

func (p *progress) Size() int64 { return p.u.Size }

// place checks what has arrived and puts it in its place, as root.
func (s *stage) place(ctx context.Context) error {
	_, err := s.Run(ctx, host.Command{Script: s.placeScript(), Root: true})
	var bad *host.CommandError
	if errors.As(err, &bad) {
		return errors.New(host.LastLine(bad.Output.Stderr))
	}
	return err
}

func (s *stage) placeScript() string {
	dir, base := path.Split(s.u.Path)
	owner := cmp.Or(s.u.Owner, "root") + ":" + cmp.Or(s.u.Group, "root")
	mode := s.u.Mode.Perm()
	if mode == 0 {
		mode = 0o644
	}
	// From another user's folder the bytes are copied first and checked afterwards, so that
	// nobody can exchange them in between. The file that is renamed is root's, and synced.
	return fmt.Sprintf(`umask 077
from=%s dir=%s to=%s
if [ %d = 1 ]; then t=$from; else
	find "$dir" -maxdepth 1 -name %s -mmin +2 -exec rm -f {} +
	t=$(mktemp "$dir"/%s) || exit
fi
trap 'rm -f "$t" "$from"' EXIT
trap 'exit 1' HUP INT TERM
[ "$t" = "$from" ] || cat <"$from" >"$t" || exit
got=$(sha256sum <"$t") || exit
[ "${got%%%% *}" = %s ] || { echo "its SHA-256 is ${got%%%% *} on the host, and should be %[7]s" >&2; exit 1; }
chown %s "$t" && chmod %#o "$t" && sync "$t" && mv -Tf "$t" "$to" && sync "$dir"`,
		host.Quote(s.file), host.Quote(cmp.Or(strings.TrimSuffix(dir, "/"), "/")), host.Quote(s.u.Path),
		number(s.direct), host.Quote(globQuote(stageName+base)+"-*"), host.Quote(stageName+base+"-XXXXXXXXXX"), s.sum, host.Quote(owner), mode)
}
