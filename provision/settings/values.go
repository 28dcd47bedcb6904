// Package settings makes the settings of a program on each host from what the operator
// wrote in several places, checks them on the operator's machine, and puts them on the
// host: NAME.yaml and tokens.yaml in /etc/NAME. Keys and comments that an
// administrator added on the host stay. It does not restart the daemon.
package settings

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v4"

	"github.com/cr-clawer/urifilter/provision/program"
	"github.com/cr-clawer/urifilter/provision/yamledit"
)

// Values are settings that somebody gave, each with the place where it was given. The zero
// Values are empty.
type Values struct {
	all  []value
	read *sync.Map // what programs have read in these values, by what runs; nil: nothing is kept
}

type value struct {
	key  string
	node *yaml.Node
	from string // for people: configs/hosts.yaml, host a
}

// ReadFile returns the settings in a program's file. Its errors name file, line and key.
func ReadFile(p program.Program, path string) (Values, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Values{}, err
	}
	if _, err := p.Parse(path, data); err != nil {
		return Values{}, err
	}
	root, err := yamledit.Parse(path, string(data))
	if err != nil {
		return Values{}, err
	}
	return Of(root, path), nil
}

// Of returns the settings in a part of a YAML file; from says which part. Nil has none.
func Of(root *yaml.Node, from string) Values {
	v := Values{read: new(sync.Map)}
	if root == nil || root.Kind != yaml.MappingNode {
		return v
	}
	for _, leaf := range yamledit.Leaves(root) {
		v.set(leaf.Key, yamledit.Plain(leaf.Value), from)
	}
	return v
}

// Over returns these settings and those of others, which replace the values of equal keys.
func (v Values) Over(others Values) Values {
	v = Values{slices.Clone(v.all), new(sync.Map)}
	for _, o := range others.all {
		v.set(o.key, o.node, o.from)
	}
	return v
}

// Set gives a key a value: a text, a number, a list of texts.
func (v *Values) Set(key string, to any, from string) error {
	node, err := yamledit.Value(to)
	if err != nil {
		return err
	}
	*v = Values{slices.Clone(v.all), new(sync.Map)}
	v.set(key, node, from)
	return nil
}

// Has reports whether somebody gave one of the keys.
func (v Values) Has(keys ...string) bool {
	return slices.ContainsFunc(v.all, func(x value) bool { return slices.Contains(keys, x.key) })
}

func (v *Values) set(key string, node *yaml.Node, from string) {
	x := value{key, node, from}
	if i := slices.IndexFunc(v.all, func(x value) bool { return x.key == key }); i >= 0 {
		v.all[i] = x
		return
	}
	v.all = append(v.all, x)
}

// Keys returns the keys that have a value.
func (v Values) Keys() []string {
	keys := make([]string, len(v.all))
	for i, x := range v.all {
		keys[i] = x.key
	}
	return keys
}

func (v Values) edits() []yamledit.Edit {
	edits := make([]yamledit.Edit, len(v.all))
	for i, x := range v.all {
		edits[i] = yamledit.Edit{Key: x.key, Value: x.node}
	}
	return edits
}

// Read returns the program's view of the values, with the defaults of the rest. The error
// contains all faults, each with the key and where it was given. The same values are parsed once.
func (v Values) Read(p program.Program) (program.Settings, error) {
	if v.read == nil {
		return v.parse(p)
	}
	do, _ := v.read.LoadOrStore(p.Name+" "+p.Run, sync.OnceValues(func() (program.Settings, error) { return v.parse(p) }))
	return do.(func() (program.Settings, error))()
}

func (v Values) parse(p program.Program) (program.Settings, error) {
	text, err := yamledit.Apply("settings", "", v.edits())
	if err != nil {
		return program.Settings{}, err
	}
	s, err := p.Parse("settings", []byte(text))
	if err == nil {
		err = s.Validate()
	}
	return s, v.blame(err)
}

// blame adds to each fault where its key was given.
func (v Values) blame(err error) error {
	if err == nil {
		return nil
	}
	list := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		list = joined.Unwrap()
	}
	for i, fault := range list {
		for _, x := range v.all {
			if mentions(fault.Error(), x.key) {
				list[i] = fmt.Errorf("%w (given in %s)", fault, x.from)
				break
			}
		}
	}
	return errors.Join(list...)
}

// mentions reports whether a fault is about a key: "redis.db: ...", "settings:3: redis.db: ...".
func mentions(fault, key string) bool {
	for part := range strings.SplitSeq(fault, ": ") {
		if part == key || strings.HasPrefix(part, key+"[") {
			return true
		}
	}
	return false
}

// Text returns a file that contains only the values.
func (v Values) Text() (string, error) { return yamledit.Apply("settings", "", v.edits()) }
