package configs

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes. Its text is plain digits or a number with a binary
// unit, as in 65536, 64KiB, 64MiB, 2GiB, 1TiB.
type Size int64

// The units of a Size.
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
	TiB Size = 1 << 40
)

type unit struct {
	name  string
	bytes Size
}

// units lists the largest first, so that String finds the shortest exact form.
func units() []unit {
	return []unit{{"TiB", TiB}, {"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}}
}

// ParseSize reads the text of a Size. Decimal units (kB, MB) are refused rather
// than guessed at.
func ParseSize(text string) (Size, error) {
	digits, factor := text, Size(1)
	for _, u := range units() {
		if rest, ok := strings.CutSuffix(text, u.name); ok {
			digits, factor = strings.TrimRight(rest, " "), u.bytes
			break
		}
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || n > uint64(math.MaxInt64/factor) {
		return 0, fmt.Errorf("%q: want bytes, or a number with KiB, MiB, GiB or TiB, such as 64MiB", text)
	}
	return Size(n) * factor, nil
}

// String returns the shortest text that ParseSize reads back exactly.
func (s Size) String() string {
	for _, u := range units() {
		if s != 0 && s%u.bytes == 0 {
			return strconv.FormatInt(int64(s/u.bytes), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// Wanted says what the text of a size may be.
func (Size) Wanted() string {
	return "bytes, or a number with KiB, MiB, GiB or TiB, such as 64MiB"
}

// MarshalText writes what String returns.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what ParseSize reads.
func (s *Size) UnmarshalText(text []byte) error {
	n, err := ParseSize(string(text))
	if err != nil {
		return err
	}
	*s = n
	return nil
}
