package host

import "io"

// mostInput bounds what Input reads, in bytes.
const mostInput = 64 << 10

// Input returns a command's input, if it is short and can be read again, as that of a strings.Reader; "" for none.
func Input(c Command) (text string, known bool) {
	if c.Stdin == nil {
		return "", true
	}
	sized, is := c.Stdin.(interface {
		io.ReadSeeker
		Len() int
	})
	if !is || sized.Len() > mostInput {
		return "", false
	}
	at, err := sized.Seek(0, io.SeekCurrent)
	if err != nil {
		return "", false
	}
	read, err := io.ReadAll(sized)
	if _, again := sized.Seek(at, io.SeekStart); err != nil || again != nil {
		return "", false
	}
	return string(read), true
}
