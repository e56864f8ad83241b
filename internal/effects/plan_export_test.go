package effects

// Kind is that of the rows of effects.
var Kind = effectKind
