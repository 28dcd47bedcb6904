package download

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
)

// DamagedError is returned for something stored that is not what was stored.
type DamagedError struct {
	What  string // body of task X, ...
	Fault string
}

func (e *DamagedError) Error() string {
	return e.What + ": " + e.Fault + "\nhint: `uridownloader verify` finds all that is damaged; put it back from a copy, or download it again"
}

// Checked reads a body that was stored with a size and a SHA-256 in hexadecimal digits, "" if it is not
// known. A body that is another one ends with a *DamagedError in place of io.EOF.
func Checked(task string, size int64, sum string, body io.ReadCloser) io.ReadCloser {
	return &checked{ReadCloser: body, what: "body of task " + task, size: size, want: sum, sum: sha256.New()}
}

type checked struct {
	io.ReadCloser
	what string
	size int64
	want string
	read int64
	sum  hash.Hash
}

func (c *checked) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.sum.Write(p[:n])
	c.read += int64(n)
	switch {
	case c.read > c.size, err == io.EOF && c.read < c.size:
		return n, &DamagedError{c.what, fmt.Sprintf("it has not the %d bytes that were stored", c.size)}
	case err == io.EOF && c.want != "":
		if got := hex.EncodeToString(c.sum.Sum(nil)); got != c.want {
			return n, &DamagedError{c.what, fmt.Sprintf("its SHA-256 is %s, and that of what was stored is %s", got, c.want)}
		}
	}
	return n, err
}
