package load

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// overRESP is a caller by the protocol of Redis, in its version 2.
type overRESP struct {
	net.Conn
	in *bufio.Reader
}

func newRESP(conn net.Conn) *overRESP { return &overRESP{conn, bufio.NewReaderSize(conn, 64<<10)} }

func (c *overRESP) logIn(token string) error {
	if _, err := fmt.Fprintf(c.Conn, "*2\r\n$4\r\nAUTH\r\n$%d\r\n%s\r\n", len(token), token); err != nil {
		return err
	}
	_, err := c.line()
	return err
}

// line reads a line without its end; an error of the server is a refusal.
func (c *overRESP) line() ([]byte, error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	line = bytes.TrimSuffix(line, []byte("\r\n"))
	if text, isError := bytes.CutPrefix(line, []byte("-")); isError {
		code, detail, _ := strings.Cut(string(text), " ")
		if of, rest, coded := strings.Cut(detail, ": "); code == "ERR" && coded && !strings.Contains(of, " ") {
			code, detail = of, rest // as HTTP names it
		}
		return nil, &refusal{code: code, detail: detail}
	}
	return line, nil
}

func (c *overRESP) call(request []byte) (a reply, err error) {
	if _, err := c.Write(request); err != nil { // the server reads a command whole before it answers
		return a, err
	}
	head, err := c.line()
	if err != nil {
		return a, err
	}
	a.size = int64(len(head)) + 2
	count, isArray := bytes.CutPrefix(head, []byte("*"))
	if a.total, err = strconv.ParseInt(string(count), 10, 64); err != nil || !isArray {
		return a, fmt.Errorf("%w: it begins with %.60q", errOddAnswer, head)
	}
	for range a.total {
		line, err := c.line()
		if err != nil {
			return a, err
		}
		a.size += int64(len(line)) + 2
		switch string(line) {
		case ":0":
			a.duplicates++
		case ":1":
		default:
			return a, fmt.Errorf("%w: it has %.60q", errOddAnswer, line)
		}
	}
	return a, nil
}
