"""Small programs written out, element by element, and compared as formulas.

Where tiles, windows and masks are too odd for `Machine`, both programs are run on
formulas: every element of every value, on every device, is one. Two elements are equal
if their formulas are, as polynomials in what arguments and unknown functions give. A
polynomial is known by its value at one point, drawn at random for each proof in a field
of some 2**127 numbers: different ones meet there with a chance of some 2**-100. Which
field is drawn as well, for numbers that a program spells are not drawn at random. Of
floats there are two values, in two fields: in the second one negatives are positive,
so that nothing is lost where a float and its negative are added.

The cost grows with the number of elements and devices, so that only small programs are
looked at in this way, and only where nothing else proves a result.

- `field`: numbers at the random point. `rings`: sums and products of each type.
- `cases`: what depends on an integer that is not known, case by case.
- `numbers`, `bounds`: floats that are known, or finite for certain.
- `integers`, `widening`, `summed`, `converting`, `factors`, `truths`, `monoids`,
  `elementwise`: ops of single elements.
- `moving`, `places`, `lookups`, `products`, `folds`, `ordering`, `largest`, `calls`:
  other ops.
- `bodies`, `starts`: reducers without a name.
- `alone`, `lockstep`, `branches`, `exchange`: programs, on all devices at once.
- `live`: what results are made of; nothing else is written out.
- `written_out`: the comparison.
"""
