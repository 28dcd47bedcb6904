package filter

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/html/charset"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/sniff"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
)

// source is what takes items out of a file, one after the other; io.EOF: there are no more.
type source func() (item string, err error)

// sources make them, by the value of --as in front of the colon.
var sources = map[string]func(r io.Reader, argument string) (source, error){"csv": csvSource, "sitemap": sitemapSource, "cdx": cdxSource, asScrapy: scrapySource}

// asScrapy is the value of --as for Scrapy's list of seen requests.
const asScrapy = "scrapy"

// asValue is a flag's value: what a file is that the items are taken from.
type asValue string

func (a *asValue) String() string { return string(*a) }

// Type implements pflag.Value.
func (a *asValue) Type() string { return "FORM" }

// Set implements pflag.Value.
func (a *asValue) Set(text string) error {
	name, argument, _ := strings.Cut(text, ":")
	if sources[name] == nil || (name == "csv") != (argument != "") {
		return errors.New("want csv:COLUMN (its name, or its number from 1), sitemap, cdx or scrapy")
	}
	*a = asValue(text)
	return nil
}

// lines returns the items in r as lines; r itself if nothing is to be taken out.
func (a *asValue) lines(r io.Reader) io.Reader {
	if *a == "" {
		return r
	}
	name, argument, _ := strings.Cut(string(*a), ":")
	return &itemLines{begin: func() (source, error) { return sources[name](r, argument) }}
}

// itemLines is the items of a source as lines.
type itemLines struct {
	begin func() (source, error)
	next  source
	left  []byte // of the last line
	err   error
}

// Read implements [io.Reader].
func (l *itemLines) Read(p []byte) (n int, err error) {
	if l.next == nil && l.err == nil {
		l.next, l.err = l.begin()
	}
	for n < len(p) {
		for len(l.left) == 0 {
			if l.err != nil {
				if n > 0 {
					return n, nil
				}
				return 0, l.err
			}
			var item string
			item, l.err = l.next()
			switch {
			case l.err != nil || item == "":
			case strings.Contains(item, "\n"):
				l.err = errors.New("an item has a line end in it")
			default:
				l.left = append(append(l.left, item...), '\n')
			}
		}
		k := copy(p[n:], l.left)
		l.left = l.left[k:]
		n += k
	}
	return n, nil
}

// csvSource takes a column: by its name, of the rows below the head; by its number, of all rows.
func csvSource(r io.Reader, column string) (source, error) {
	in := bufio.NewReader(r)
	if mark, err := in.Peek(len(byteOrderMark)); err == nil && string(mark) == string(byteOrderMark) {
		if _, err := in.Discard(len(mark)); err != nil {
			return nil, err
		}
	}
	head, err := in.Peek(sniff.Bytes) // which may be less
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
		return nil, err
	}
	first, _, _ := strings.Cut(string(head), "\n")
	rows := csv.NewReader(in)
	rows.Comma = rune(sniff.Separator(first)[0])
	rows.FieldsPerRecord, rows.LazyQuotes, rows.ReuseRecord = -1, true, true
	widest := 0 // of the rows
	at, err := strconv.Atoi(column)
	if at--; err != nil {
		names, err := rows.Read()
		if err != nil {
			return nil, err
		}
		widest = len(names)
		at = slices.IndexFunc(names, func(name string) bool { return strings.EqualFold(strings.TrimSpace(name), column) })
		if at < 0 {
			return nil, &notText{fmt.Sprintf("the table has no column %q", column), "its columns: " + strings.Join(names, ", ")}
		}
	}
	if at < 0 {
		return nil, errors.New("columns are counted from 1")
	}
	return func() (string, error) {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) && 0 < widest && widest <= at {
			return "", &notText{fmt.Sprintf("the table has no column %d", at+1), fmt.Sprintf("its rows have up to %d columns", widest)}
		}
		widest = max(widest, len(row))
		if err != nil || at >= len(row) {
			return "", err
		}
		return strings.TrimSpace(row[at]), nil
	}, nil
}

// sitemapSource takes the addresses of pages out of a sitemap, and those of sitemaps out of an index.
func sitemapSource(r io.Reader, _ string) (source, error) {
	in := xml.NewDecoder(r)
	in.CharsetReader = charset.NewReaderLabel
	var open []string // elements
	var text strings.Builder
	is := false // a sitemap
	inLoc := func() bool {
		n := len(open)
		return n >= 2 && open[n-1] == "loc" && (open[n-2] == "url" || open[n-2] == "sitemap")
	}
	return func() (string, error) {
		for {
			token, err := in.Token()
			if errors.Is(err, io.EOF) && !is && in.InputOffset() > 0 {
				return "", &notText{"no sitemap: it has neither urlset nor sitemapindex", "without `--as sitemap`, each line is an item"}
			}
			if err != nil {
				return "", err
			}
			switch token := token.(type) {
			case xml.StartElement:
				is = is || slices.Contains([]string{"urlset", "url", "sitemapindex", "sitemap"}, token.Name.Local)
				open = append(open, token.Name.Local)
				text.Reset()
			case xml.CharData:
				if inLoc() {
					text.Write(token)
				}
			case xml.EndElement:
				found := inLoc()
				open = open[:len(open)-1]
				if found {
					return strings.TrimSpace(text.String()), nil
				}
			}
		}
	}, nil
}

// cdxSource takes the original addresses out of an index of an archive: CDX with or without a head, or CDXJ.
func cdxSource(r io.Reader, _ string) (source, error) {
	in, at := bufio.NewScanner(r), 2
	in.Buffer(nil, lineBytes)
	line := 0
	return func() (string, error) {
		for in.Scan() {
			line++
			fields := strings.Fields(in.Text())
			if len(fields) > 0 && fields[0] == "CDX" && line == 1 {
				if at = slices.Index(fields, "a") - 1; at < 0 {
					return "", &notText{"the head of the index names no column a (original address)", "its columns: " + strings.Join(fields[1:], " ")}
				}
				continue
			}
			if len(fields) > 2 && strings.HasPrefix(fields[2], "{") {
				var more struct{ URL string }
				_, object, _ := strings.Cut(in.Text(), "{")
				if err := json.Unmarshal([]byte("{"+object), &more); err != nil || more.URL == "" {
					return "", fmt.Errorf("line %d of the index: want a JSON object with a url", line)
				}
				return more.URL, nil
			}
			if len(fields) > at {
				return fields[at], nil
			}
			if len(fields) > 0 {
				return "", fmt.Errorf("line %d of the index: want %d columns or more", line, at+1)
			}
		}
		if err := in.Err(); err != nil {
			return "", err
		}
		return "", io.EOF
	}, nil
}

// scrapySource takes the fingerprints out of the file requests.seen of a JOBDIR, in hexadecimal digits. Up to
// Scrapy 2.18 it has them so, one a line; after it each is two bytes with its length, the greater first, and then the
// bytes themselves. A last one that is cut off, as a crash of the crawler leaves it, is left out.
func scrapySource(r io.Reader, _ string) (source, error) {
	in := bufio.NewReader(r)
	first, err := in.Peek(1)
	if err != nil {
		return nil, err
	}
	switch {
	case first[0] != 0 && !strings.ContainsRune("0123456789abcdef", rune(first[0])):
		return nil, &notText{"no list of fingerprints as Scrapy has it in JOBDIR/requests.seen", "without `--as scrapy`, each line is an item"}
	case first[0] != 0:
		lines, n := bufio.NewScanner(in), 0
		return func() (string, error) {
			for lines.Scan() {
				n++
				item := strings.TrimSpace(lines.Text())
				if _, err := hex.DecodeString(item); err == nil {
					return item, nil
				}
				if !lines.Scan() && lines.Err() == nil { // it was the last
					return "", io.EOF
				}
				return "", fmt.Errorf("line %d: want a fingerprint of Scrapy in hexadecimal digits", n)
			}
			return "", cmp.Or(lines.Err(), io.EOF)
		}, nil
	}
	return func() (string, error) {
		var head [2]byte
		_, err := io.ReadFull(in, head[:])
		item := make([]byte, binary.BigEndian.Uint16(head[:]))
		if err == nil {
			_, err = io.ReadFull(in, item)
		}
		if err == io.ErrUnexpectedEOF { //nolint:errorlint // that of ReadFull itself, and none of a packed file
			err = io.EOF
		}
		return hex.EncodeToString(item), err
	}, nil
}

// warnOdd tells of text that is hardly a list of items.
func warnOdd(w io.Writer, odd *sniff.Odd) {
	hint := odd.Hint
	if odd.As != "" {
		hint = "`--as " + odd.As + "` takes the items out of it"
	}
	fmt.Fprintf(w, "urifilter: warning: the input looks like %s: each of its lines is taken for an item%s%s\n", odd.What, command.HintMark, hint)
}
