package contract

import (
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"
)

// rule is a schema, compiled.
type rule interface {
	// check reports what is wrong with a value, and puts defaults into it.
	check(r *report, value any)
}

// kind is a type of JSON, and the words for a value that is of another.
type kind string

func (k kind) add(r *report, value any) {
	if value == nil {
		r.add("Value is not nullable")
		return
	}
	article := "a"
	if k == "array" || k == "object" || k == "integer" {
		article = "an"
	}
	r.add("value must be " + article + " " + string(k))
}

// nullable lets null in, too.
type nullable struct{ rule }

func (n nullable) check(r *report, value any) {
	if value != nil {
		n.rule.check(r, value)
	}
}

// allOf is a schema's parts and then its own rule, which has nothing to add where a part has found a fault.
type allOf struct {
	parts []rule
	own   rule
}

func (a allOf) check(r *report, value any) {
	found := len(r.faults)
	for _, part := range a.parts {
		part.check(r, value)
	}
	if len(r.faults) == found && value != nil {
		a.own.check(r, value)
	}
}

// anything is the own rule of a schema that has only parts.
type anything struct{}

func (anything) check(*report, any) {}

// text is a string. Its length is counted in code points.
type text struct {
	enum      []string
	notInEnum string
	low, high int // high is negative where there is none
	pattern   func(string) bool
	noMatch   string
	format    func(string) error
	noFormat  string
}

func (t *text) check(r *report, value any) {
	s, ok := value.(string)
	switch {
	case ok:
		t.judge(r, s)
	case t.enum != nil:
		r.add(t.notInEnum)
	default:
		kind("string").add(r, value)
	}
}

func (t *text) judge(r *report, s string) {
	if t.enum != nil && !slices.Contains(t.enum, s) {
		r.add(t.notInEnum)
		return
	}
	length := utf8.RuneCountInString(s)
	if length < t.low {
		r.add(fmt.Sprintf("minimum string length is %d", t.low))
	}
	if t.high >= 0 && length > t.high {
		r.add(fmt.Sprintf("maximum string length is %d", t.high))
	}
	if t.pattern != nil && !t.pattern(s) {
		r.add(t.noMatch)
	}
	if t.format != nil {
		if err := t.format(s); err != nil {
			r.add(fmt.Sprintf("%s (%v)", t.noFormat, err))
		}
	}
}

// integer is a whole number of 64 bits.
type integer struct {
	bits      int // of its format
	low, high *int64
}

func (i *integer) check(r *report, value any) {
	n, ok := value.(int64)
	if !ok {
		kind("integer").add(r, value)
		return
	}
	if n != int64(int32(n)) && i.bits == 32 { //nolint:gosec // to see whether it overflows
		r.add(`integer doesn't match the format "int32" (value should be between -2147483648 and 2147483647)`)
	}
	if i.low != nil && n < *i.low {
		r.add(fmt.Sprintf("number must be at least %d", *i.low))
	}
	if i.high != nil && n > *i.high {
		r.add(fmt.Sprintf("number must be at most %d", *i.high))
	}
}

type boolean struct{}

func (boolean) check(r *report, value any) {
	if _, ok := value.(bool); !ok {
		kind("boolean").add(r, value)
	}
}

type array struct {
	items     rule
	low, high int // high is negative where there is none
}

func (a *array) check(r *report, value any) {
	items, ok := value.([]any)
	if !ok {
		kind("array").add(r, value)
		return
	}
	if len(items) < a.low {
		r.add(fmt.Sprintf("minimum number of items is %d", a.low))
	}
	if a.high >= 0 && len(items) > a.high {
		r.add(fmt.Sprintf("maximum number of items is %d", a.high))
	}
	for i, item := range items {
		if r.full() {
			return
		}
		r.item(i, a.items, item)
	}
}

type object struct {
	members   []member        // by name
	known     map[string]bool // the names with a rule
	closed    bool            // to every other name
	more      rule            // of the other members; nil where it does not matter what they are
	low, high int             // high is negative where there is none
}

type member struct {
	name     string
	rule     rule // nil where the name is required, and no more is said of it
	required bool
	standard any // the default, nil where there is none
}

func (o *object) check(r *report, value any) {
	document, ok := value.(map[string]any)
	if !ok {
		kind("object").add(r, value)
		return
	}
	for i := range o.members {
		if m := &o.members[i]; m.standard != nil {
			if _, there := document[m.name]; !there {
				document[m.name] = copied(m.standard)
			}
		}
	}
	if len(document) < o.low {
		r.add(fmt.Sprintf("there must be at least %d properties", o.low))
	}
	if o.high >= 0 && len(document) > o.high {
		r.add(fmt.Sprintf("there must be at most %d properties", o.high))
	}
	judged := 0
	for i := range o.members {
		m := &o.members[i]
		switch value, there := document[m.name]; {
		case there && m.rule != nil:
			r.member(m.name, m.rule, value)
			judged++
		case !there && m.required:
			found := len(r.faults)
			r.add(fmt.Sprintf("property %q is missing", m.name))
			r.below(found, m.name)
		}
	}
	if judged < len(document) && (o.closed || o.more != nil) {
		o.others(r, document)
	}
}

// others judges the members that the schema does not name.
func (o *object) others(r *report, document map[string]any) {
	names := make([]string, 0, len(document))
	for name := range document {
		if !o.known[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		switch {
		case r.full():
			return
		case o.closed:
			r.add(fmt.Sprintf("property %q is unsupported", name))
		default:
			r.member(name, o.more, document[name])
		}
	}
}

// copied is a default for one document: the next one has its own.
func copied(value any) any {
	switch v := value.(type) {
	case map[string]any:
		v = maps.Clone(v)
		for name := range v {
			v[name] = copied(v[name])
		}
		return v
	case []any:
		v = slices.Clone(v)
		for i := range v {
			v[i] = copied(v[i])
		}
		return v
	}
	return value
}
