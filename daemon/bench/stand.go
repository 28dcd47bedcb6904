package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
)

// stand has the servers of redistest and mysqltest, which are made for tests, serve a part of the benchmark: it
// stands in for a test. They end with the part.
type stand struct {
	testing.TB // nil: those servers call nothing but what is below
	part       string
	dir        string // scratch folder
	ends       []func()
}

// stopped ends a part; without an error it is left out.
type stopped struct{ err error }

// measure runs a part with a stand.
func (s *stand) measure(part func() error) (err error) {
	defer func() {
		said := recover()
		for _, end := range slices.Backward(s.ends) {
			end()
		}
		if stop, ok := said.(stopped); ok {
			err = stop.err
		} else if said != nil {
			panic(said)
		}
	}()
	return part()
}

func (s *stand) Helper()                           {}
func (s *stand) Cleanup(end func())                { s.ends = append(s.ends, end) }
func (s *stand) Error(args ...any)                 { fmt.Fprintln(os.Stderr, args...) }
func (s *stand) Fatal(args ...any)                 { panic(stopped{errors.New(fmt.Sprint(args...))}) }
func (s *stand) Fatalf(format string, args ...any) { panic(stopped{fmt.Errorf(format, args...)}) }

func (s *stand) Skip(args ...any) {
	fmt.Printf("\n%s: %s; left out\n", s.part, fmt.Sprint(args...))
	panic(stopped{})
}

func (s *stand) TempDir() string {
	dir, err := os.MkdirTemp(s.dir, "")
	if err != nil {
		s.Fatal(err)
	}
	return dir
}
