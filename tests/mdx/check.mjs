// Reads a JSON list of pages from standard input, compiles each with the MDX compiler, and prints a JSON list:
// for each page the things in it that act, or the error that stopped the compiler. An inert page has none.
import {compile} from '@mdx-js/mdx'
import remarkDirective from 'remark-directive'
import remarkFrontmatter from 'remark-frontmatter'
import remarkGfm from 'remark-gfm'

const ACTS = new Set([
  'mdxjsEsm', 'mdxFlowExpression', 'mdxTextExpression', 'mdxJsxFlowElement', 'mdxJsxTextElement',
  'html', 'image', 'imageReference', 'linkReference', 'definition', 'footnoteDefinition',
  'containerDirective', 'leafDirective'
])

function acting(node, found) {
  if (ACTS.has(node.type)) found.push(node.type)
  if (node.type === 'textDirective' && (node.children.length || Object.keys(node.attributes).length)) {
    found.push('textDirective')
  }
  if (node.type === 'link' && !/^(https?:|mailto:|#)/i.test(node.url)) found.push(`link to ${node.url}`)
  if (node.type === 'code' && /^(mdx-code-block|mermaid)$/i.test(node.lang || '')) found.push(`code of ${node.lang}`)
  if (node.type === 'code' && node.meta) found.push(`code with ${node.meta}`)
  for (const child of node.children || []) acting(child, found)
}

let text = ''
for await (const part of process.stdin) text += part
const answers = []
for (const page of JSON.parse(text)) {
  const found = []
  const look = () => tree => acting(tree, found)
  try {
    await compile(page, {remarkPlugins: [remarkFrontmatter, remarkGfm, remarkDirective, look]})
    answers.push(found)
  } catch (error) {
    answers.push([...found, `error: ${error.reason || error.message}`])
  }
}
console.log(JSON.stringify(answers))
